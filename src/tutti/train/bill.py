"""`tutti train bill`: the memory that the snapshots of a run will take, so that the job can ask for it beforehand."""

from __future__ import annotations

import argparse
import json
import sys

from tutti.train.agent.bill import Bill, read_amount
from tutti.train.agent.shelf import megabytes


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tutti train bill", description="The memory that snapshots will take.")
    parser.add_argument("state", type=read_amount, help="the state: three times the model with AdamW; 200M, 3GiB")
    parser.add_argument("--workers", type=int, default=1, help="members (1)")
    parser.add_argument("--slots", type=int, default=2, help="snapshots kept in memory (2)")
    parser.add_argument("--domains", type=int, default=1, help="failure domains (1)")
    parser.add_argument("--sharded", action="store_true", help="the state is split between the members (FSDP2)")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="text or json (text)")
    return parser


def show(words: list[str]) -> int:
    asked = arguments().parse_args(words)
    if min(asked.workers, asked.domains) < 1 or asked.slots < 0:
        arguments().error("--workers and --domains are at least 1, --slots at least 0")
    bill = Bill(asked.state, asked.workers, asked.slots, asked.domains, asked.sharded)
    if asked.output == "json":
        found = {"schema": "tutti/v1", "total_bytes": bill.total_bytes, "member_bytes": bill.member_bytes}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(
            f"{megabytes(bill.total_bytes)} for the snapshots of {megabytes(bill.state_bytes)} of state: "
            f"add {megabytes(bill.member_bytes)} to what each of {bill.workers} members asks for "
            f"(tutti run --mem), or say --state to tutti train\n"
        )
    return 0
