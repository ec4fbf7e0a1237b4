"""Cases as lines of text: nodes, groups and pods in; bindings, conditions and reasons out. See cases/*.yaml."""

import asyncio
import re
import shlex
from typing import Any

import msgspec

from tests.kube import dialects
from tests.kube.play import Play
from tools.control_plane.stage import node, path_of, pod
from tutti.kube.config import Config
from tutti.kube.scheduler import Scheduler
from tutti.kube.tell import FILLING

PODS = "/api/v1/namespaces/default/pods"
EXPECTATIONS = frozenset(
    [
        "bound",
        "total",
        "together",
        "apart",
        "on",
        "kept",
        "gone",
        "runs",
        "waits",
        "least",
        "estimate",
        "queued",
        "condition",
        "told",
        "untold",
        "phase",
        "event",
        "record",
    ]
)


def words(line: str) -> tuple[str, list[str], dict[str, str]]:
    """Verb, plain words, and key=value words."""
    verb, *rest = shlex.split(line)
    said = dict(word.split("=", 1) for word in rest if "=" in word)
    return verb, [word for word in rest if "=" not in word], said


class Script:
    """Plays one case."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.stage = play.stage
        self.scheduler: Scheduler | None = None
        self.nodes = 0
        self.sizes: dict[str, int] = {}

    async def run(self, lines: list[str]) -> int:
        """Play every line; answers with how many of them say what is expected, which has then come true."""
        text = " ".join(lines)
        spoken = tuple(name for name in dialects.NAMES if name in text) or ("native",)
        spoken += ("volcano",) if "kube-batch" in text else ()
        config = Config(levels=("rack",), dialects=spoken)
        if "settings migrate" in lines:
            place = msgspec.structs.replace(config.policy.place, migrate=True)
            config = msgspec.structs.replace(config, policy=msgspec.structs.replace(config.policy, place=place))
        async with self.play.scheduler(config) as scheduler:
            self.scheduler = scheduler
            for line in lines:
                verb, plain, said = words(line)
                await getattr(self, f"do_{verb}")(plain, said)
            await self.still()
            assert scheduler.compare() == 0, "the books differ from what the pods use"
        return sum(words(line)[0] in EXPECTATIONS for line in lines)

    async def do_settings(self, plain: list[str], said: dict[str, str]) -> None:
        """settings migrate: gangs that may be are moved, so that others find room in one piece"""
        assert plain == ["migrate"], plain

    # -- what is there

    async def do_nodes(self, plain: list[str], said: dict[str, str]) -> None:
        """nodes 4x8 [rack=r1] [per-rack=2] [taint=key] [label=key:value] [cpu=..]"""
        count, gpus = map(int, plain[0].split("x"))
        made = []
        for _ in range(count):
            labels = {}
            if "per-rack" in said:
                labels["rack"] = f"r{self.nodes // int(said['per-rack'])}"
            if "rack" in said:
                labels["rack"] = said["rack"]
            if "label" in said:
                labels |= dict([said["label"].split(":")])
            body = node(f"n{self.nodes}", gpus, labels, **({"cpu": said["cpu"]} if "cpu" in said else {}))
            if "taint" in said:
                body["spec"] = {"taints": [{"key": said["taint"], "effect": "NoSchedule"}]}
            made.append(body)
            self.nodes += 1
        await self.stage.make(*made)

    async def do_gang(self, plain: list[str], said: dict[str, str]) -> None:
        """gang NAME PODSxGPUS [dialect=] [min=] [topology=] [priority=] [time=] [owner=] [note=KEY:VALUE] ..."""
        name, size = plain
        count = int(size.split("x")[0])
        least = int(said.get("min", count))
        made = dialects.group(said.get("dialect", "native"), name, least, said)
        if made is not None and said.get("object", "yes") == "yes":
            await self.stage.make_one(made)
        if count:
            await self.do_pods(plain, said | {"min": str(least)})

    async def do_pods(self, plain: list[str], said: dict[str, str]) -> None:
        """pods NAME PODSxGPUS: more members of a gang; as=PREFIX names them"""
        name, size = plain
        count, gpus = map(int, size.split("x"))
        prefix = said.get("as", name)
        first = self.sizes.get(prefix, 0)
        self.sizes[prefix] = first + count
        kind = said.get("dialect", "native")
        extra = dialects.mark(kind, name, int(said.get("min", count)), int(said.get("total", count)), said)
        await self.stage.make(
            *(
                self._pod(f"{prefix}-{i}", name if kind == "native" else "", gpus, extra, said)
                for i in range(first, first + count)
            )
        )

    async def do_pod(self, plain: list[str], said: dict[str, str]) -> None:
        """pod NAME GPUS [labels=JSON] [annotations=JSON]: one by itself"""
        more = {name: msgspec.json.decode(said[name]) for name in ("labels", "annotations") if name in said}
        await self.stage.make_one(pod(plain[0], gpus=int(plain[1]), **more))

    def _pod(self, name: str, group: str, gpus: int, extra: dict[str, Any], said: dict[str, str]) -> dict[str, Any]:
        more: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(extra))
        more |= {"owner": said["owner"]} if "owner" in said else {}
        if "movable" in said:
            more.setdefault("annotations", {})["tutti.dev/movable"] = said["movable"]
        more |= {name: said[name] for name in ("cpu", "scheduler") if name in said}
        more |= {"priorityClassName": said["priority"]} if "priority" in said else {}
        more |= {"schedulingGates": [{"name": said["gate"]}]} if "gate" in said else {}
        more |= {"nodeSelector": dict([said["select"].split(":")])} if "select" in said else {}
        more |= {"tolerations": [{"key": said["tolerate"], "operator": "Exists"}]} if "tolerate" in said else {}
        more |= {"activeDeadlineSeconds": int(said["deadline"])} if "deadline" in said else {}
        if "volume" in said:
            more["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": said["volume"]}}]
        if "apart" in said:
            more.setdefault("labels", {})["app"] = "x"
            term = {"topologyKey": said["apart"], "labelSelector": {"matchLabels": {"app": "x"}}}
            more["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if "rig" in said:
            more.setdefault("annotations", {}).update(dict([said["rig"].split(":")]))
        for word, where in (("mark", "annotations"), ("tag", "labels")):
            pairs = (pair.split(":", 1) for pair in said.get(word, "").split(",") if pair)
            more.setdefault(where, {}).update(dict(pairs))
        return pod(name, group, gpus, **more)

    async def do_loose(self, plain: list[str], said: dict[str, str]) -> None:
        """loose NAME PODSxGPUS: a native group whose pods need not start together"""
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
        meta = {"metadata": {"name": plain[0], "namespace": "default"}}
        await self.stage.make_one(body | meta | {"spec": {"schedulingPolicy": {"basic": {}}}})
        await self.do_pods(plain, said)

    async def do_tree(self, plain: list[str], said: dict[str, str]) -> None:
        """tree NAME CHILD:PODSxGPUS ... [topology=] [each=]: a composite group and its groups"""
        name, *children = plain
        api = "scheduling.k8s.io/v1alpha3"
        ref = {"workloadRef": {"workloadName": name, "templateName": name}}
        spec: dict[str, Any] = {
            "schedulingPolicy": {"gang": {"minGroupCount": int(said.get("min", len(children)))}},
            **ref,
        }
        if said.get("policy") == "basic":
            spec["schedulingPolicy"] = {"basic": {}}
        if "topology" in said:
            spec["schedulingConstraints"] = {"topology": [{"key": said["topology"]}]}
        meta = {"name": name, "namespace": "default"}
        await self.stage.make_one({"apiVersion": api, "kind": "CompositePodGroup", "metadata": meta, "spec": spec})
        for child in children:
            part, size = child.split(":")
            count, _ = map(int, size.split("x"))
            below: dict[str, Any] = {
                "schedulingPolicy": {"gang": {"minCount": count}},
                "parentCompositePodGroupName": name,
            }
            below["workloadRef"] = {"workloadName": name, "templateName": part}
            if "each" in said:
                below["schedulingConstraints"] = {"topology": [{"key": said["each"]}]}
            meta = {"name": part, "namespace": "default"}
            await self.stage.make_one({"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": below})
            await self.do_pods([part, size], said)

    async def do_volume(self, plain: list[str], said: dict[str, str]) -> None:
        """volume NAME DRIVER [mode=] [source=JSON]: a volume and a claim of that name, bound to each other"""
        name, driver = plain
        size, modes = {"storage": "1Gi"}, [said.get("mode", "ReadWriteOnce")]
        claim = {"namespace": "default", "name": name}
        spec = {"capacity": size, "accessModes": modes, "csi": {"driver": driver, "volumeHandle": name}}
        if "source" in said:
            del spec["csi"]
            spec |= msgspec.json.decode(said["source"])
        meta = {"metadata": {"name": name}}
        await self.stage.make_one(
            {"apiVersion": "v1", "kind": "PersistentVolume", **meta, "spec": spec | {"claimRef": claim}}
        )
        asks = {"accessModes": modes, "volumeName": name, "storageClassName": "", "resources": {"requests": size}}
        await self.stage.make_one(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": asks}
        )
        path = f"/api/v1/namespaces/default/persistentvolumeclaims/{name}/status"
        await self.stage.patch(path, {"status": {"phase": "Bound", "accessModes": modes, "capacity": size}})

    async def do_other(self, plain: list[str], said: dict[str, str]) -> None:
        """other NAME GPUS NODE: a pod that somebody else has placed"""
        await self.stage.make_one(pod(plain[0], gpus=int(plain[1]), scheduler="other", nodeName=plain[2]))

    async def do_heard(self, plain: list[str], _said: dict[str, str]) -> None:
        """heard PLURAL N: the scheduler knows so many of a kind, as they are now"""
        assert self.scheduler is not None
        listeners = self.scheduler.listeners.items()
        path, listener = next(pair for pair in listeners if pair[0].endswith(f"/{plain[0]}"))

        async def check() -> bool:
            return len(listener.known) == int(plain[1])

        await self._up_to_date(path)
        await self.play.until(check, f"{plain[1]} {plain[0]}")

    async def _up_to_date(self, path: str, uid: str = "") -> None:
        """Until what the scheduler has heard of a kind is what is written there now, one object included."""
        listener = self.scheduler.listeners.get(path) if self.scheduler is not None else None
        if listener is None:
            return
        metas = [each["metadata"] for each in await self.stage.items(path)]
        written = {meta["uid"]: int(meta["resourceVersion"]) for meta in metas}

        async def check() -> bool:
            heard = {uid: int(version) for uid, (version, _) in listener.known.items()}
            return (not uid or uid in heard) and all(heard[each] >= written.get(each, 0) for each in heard)

        await self.play.until(check, f"the latest of {path}")

    async def do_thing(self, plain: list[str], said: dict[str, str]) -> None:
        """thing JSON: any object, with its status where it has one"""
        body = msgspec.json.decode(" ".join(plain).encode())
        made, path = await self.stage.make_one(body), path_of(body)
        if "status" in body:
            await self.stage.patch(f"{path}/{body['metadata']['name']}/status", {"status": body["status"]})
            await self._up_to_date(re.sub("/namespaces/[^/]+", "", path), made["metadata"]["uid"])

    # -- what happens

    async def do_delete(self, plain: list[str], said: dict[str, str]) -> None:
        """delete pod|node|group NAME ..."""
        paths = {"pod": PODS, "node": "/api/v1/nodes"}
        paths["group"] = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
        for name in plain[1:]:
            await self.stage.remove(f"{paths[plain[0]]}/{name}")

    async def do_terminate(self, plain: list[str], said: dict[str, str]) -> None:
        """terminate POD ...: they are told to go, and take their time"""
        for name in plain:
            await self.stage.api.insist("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 300})

    async def do_unready(self, plain: list[str], said: dict[str, str]) -> None:
        """unready NODE ...: its kubelet is not heard of any more"""
        body = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
        for name in plain:
            kind = "application/strategic-merge-patch+json"
            await self.stage.api.insist("PATCH", f"/api/v1/nodes/{name}/status", body, kind)

    async def do_vcjob(self, plain: list[str], said: dict[str, str]) -> None:
        """vcjob NAME ESTIMATE PODSxGPUS: a job of Volcano that says how long it runs, its group and its pods"""
        name, estimate, size = plain
        meta = {"name": name, "namespace": "default"}
        job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta}
        made = await self.stage.make_one(job | {"spec": {"runningEstimate": estimate}})
        body = dialects.group("volcano", name, int(size.split("x")[0]), said)
        assert body is not None
        owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": name, "uid": made["metadata"]["uid"]}
        body["metadata"]["ownerReferences"] = [owner]
        await self.stage.make_one(body)
        await self.do_pods([name, size], said | {"dialect": "volcano"})

    async def do_owned(self, plain: list[str], said: dict[str, str]) -> None:
        """owned GROUP JOB: a group of Volcano that a job of its has made"""
        job = await self.stage.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/{plain[1]}")
        body = dialects.group("volcano", plain[0], 2, said) or {}
        owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": plain[1], "uid": job["metadata"]["uid"]}
        body["metadata"]["ownerReferences"] = [owner]
        body["spec"]["minResources"] = {"nvidia.com/gpu": "2"}
        await self.stage.make_one(body)

    async def do_cordon(self, plain: list[str], said: dict[str, str]) -> None:
        """cordon NODE ..."""
        for name in plain:
            await self.stage.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})

    async def do_uncordon(self, plain: list[str], said: dict[str, str]) -> None:
        """uncordon NODE ..."""
        for name in plain:
            await self.stage.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})

    async def do_ungate(self, plain: list[str], said: dict[str, str]) -> None:
        """ungate POD ..."""
        for name in plain:
            await self.stage.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})

    async def do_min(self, plain: list[str], said: dict[str, str]) -> None:
        """min GROUP N: the minimum is changed"""
        path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/{plain[0]}"
        await self.stage.patch(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": int(plain[1])}}}})

    async def do_change(self, plain: list[str], said: dict[str, str]) -> None:
        """change API-GROUP/VERSION/PLURAL/NAME JSON: an object of the namespace is patched; v1 has no group"""
        api, plural, name = plain[0].rsplit("/", 2)
        base = f"/apis/{api}" if "/" in api else f"/api/{api}"
        path = f"{base}/namespaces/default/{plural}/{name}"
        await self.stage.patch(path, msgspec.json.decode(" ".join(plain[1:]).encode()))

    async def do_patch(self, plain: list[str], said: dict[str, str]) -> None:
        """patch PATH JSON: any object is changed"""
        await self.stage.patch(plain[0], msgspec.json.decode(" ".join(plain[1:]).encode()))

    async def do_drop(self, plain: list[str], said: dict[str, str]) -> None:
        """drop API-GROUP/VERSION/PLURAL/NAME: an object of the whole cluster goes"""
        await self.stage.remove(f"/apis/{plain[0]}")

    # -- what is expected

    async def do_bound(self, plain: list[str], said: dict[str, str]) -> None:
        """bound PREFIX N [exactly]: so many are bound in the end"""
        count = int(plain[1])
        if count:
            await self.play.until_bound(f"{plain[0]}-", count=count)
        await self.still()
        found = await self.play.bound(f"{plain[0]}-")
        assert len(found) == count, f"{plain[0]}: {len(found)} bound, not {count}: {found}"

    async def do_total(self, plain: list[str], said: dict[str, str]) -> None:
        """total PREFIX ... N: so many pods of all of them are bound"""
        *names, count = plain
        await self.still()
        found = [await self.play.bound(f"{name}-") for name in names]
        assert sum(map(len, found)) == int(count), found

    async def do_together(self, plain: list[str], said: dict[str, str]) -> None:
        """together PREFIX LABEL: all bound pods in one domain"""
        domains = await self._domains(*plain)
        assert len(set(domains)) == 1, domains

    async def do_apart(self, plain: list[str], said: dict[str, str]) -> None:
        """apart PREFIX LABEL: no two bound pods in one domain"""
        domains = await self._domains(*plain)
        assert len(set(domains)) == len(domains), domains

    async def do_on(self, plain: list[str], said: dict[str, str]) -> None:
        """on PREFIX NODE ...: the bound pods are on these nodes"""
        found = set((await self.play.bound(f"{plain[0]}-")).values())
        assert found == set(plain[1:]), found

    async def do_kept(self, plain: list[str], said: dict[str, str]) -> None:
        """kept NAME ...: these pods are where they were"""
        found = await self.stage.nodes_of()
        assert all(found.get(name) for name in plain), found

    async def do_gone(self, plain: list[str], said: dict[str, str]) -> None:
        """gone PREFIX"""
        await self.play.until_gone(f"{plain[0]}-")

    async def do_runs(self, plain: list[str], said: dict[str, str]) -> None:
        """runs GANG: every member runs, and the engine has heard of it"""
        assert self.scheduler is not None
        jobs = self.scheduler.jobs

        async def check() -> bool:
            mine = (job for job in jobs() if job.gang.name.startswith(f"default/{plain[0]}"))
            return any(job.life.state == "running" for job in mine)

        await self.play.until(check, f"{plain[0]} runs")

    async def do_waits(self, plain: list[str], said: dict[str, str]) -> None:
        """waits GANG TOKEN [DETAIL]: it waits with this reason"""
        assert self.scheduler is not None

        driver, detail = self.scheduler.driver, " ".join(plain[2:])

        async def check() -> bool:
            reasons = [reason for key, reason in driver.answers().items() if key.startswith(f"default/{plain[0]}")]
            return any(reason.token == plain[1] and detail in reason.detail for reason in reasons)

        await self.play.until(check, f"{plain[0]} waits with {' '.join(plain[1:])}")

    async def do_least(self, plain: list[str], said: dict[str, str]) -> None:
        """least GANG N: so many must start together, or hold together while one is made anew"""
        assert self.scheduler is not None
        await self.still()
        mine = [job.gang for job in self.scheduler.jobs() if job.gang.name.startswith(f"default/{plain[0]}")]
        assert [sum(role.min for role in gang.roles) for gang in mine] == [int(plain[1])]

    async def do_estimate(self, plain: list[str], said: dict[str, str]) -> None:
        """estimate GANG SECONDS: how long it is expected to run"""
        assert self.scheduler is not None
        jobs = self.scheduler.jobs

        async def check() -> bool:
            mine = (job.gang for job in jobs() if job.gang.name.startswith(f"default/{plain[0]}"))
            return any(gang.estimate.limit == int(plain[1]) * 1_000_000 for gang in mine)

        await self.play.until(check, f"{plain[0]} runs {plain[1]} s")

    async def do_queued(self, plain: list[str], said: dict[str, str]) -> None:
        """queued GANG QUEUE: the queue it is in"""
        assert self.scheduler is not None
        jobs = self.scheduler.jobs

        async def check() -> bool:
            return any(j.gang.name.startswith(f"default/{plain[0]}") and j.gang.queue == plain[1] for j in jobs())

        await self.play.until(check, f"{plain[0]} in {plain[1]}")

    async def do_condition(self, plain: list[str], said: dict[str, str]) -> None:
        """condition GROUP STATUS REASON [text=] [tree=yes]: of a native group, or of a tree of them"""
        found = await self.play.until_told(plain[0], plain[1], "tree" in said)
        assert found["reason"] == plain[2], found
        assert said.get("text", "") in found["message"], found

    async def do_told(self, plain: list[str], said: dict[str, str]) -> None:
        """told POD REASON TEXT: the condition of a pod that waits"""
        text = " ".join(plain[2:])

        async def check() -> bool:
            conditions = (await self.stage.get(f"{PODS}/{plain[0]}")).get("status", {}).get("conditions", [])
            found = [c for c in conditions if c["type"] == "PodScheduled" and c.get("reason") == plain[1]]
            return any(text in c["message"] for c in found)

        await self.play.until(check, " ".join(plain))

    async def do_untold(self, plain: list[str], said: dict[str, str]) -> None:
        """untold GROUP [dialect=]: nobody has written anything about it"""
        api, version = dialects.GROUPS.get(said.get("dialect", ""), ("scheduling.k8s.io", "v1beta1"))
        # Who lacks pods is told so only after a while.
        await asyncio.sleep(3 * FILLING)
        await self.still()
        found = await self.stage.get(f"/apis/{api}/{version}/namespaces/default/podgroups/{plain[0]}")
        events = await self.stage.items("/apis/events.k8s.io/v1/events")
        assert not found.get("status"), found
        assert not [e for e in events if e["regarding"]["name"] == plain[0]]

    async def do_phase(self, plain: list[str], said: dict[str, str]) -> None:
        """phase GROUP PHASE dialect=... [running=] [succeeded=] [failed=]: of a group of a dialect that has phases"""
        api, version = dialects.GROUPS[said["dialect"]]
        path = f"/apis/{api}/{version}/namespaces/default/podgroups/{plain[0]}"
        counts = {name: int(said[name]) for name in ("running", "succeeded", "failed") if name in said}

        async def check() -> bool:
            status = (await self.stage.get(path)).get("status", {})
            return bool(status.get("phase") == plain[1]) and all(status.get(n) == count for n, count in counts.items())

        await self.play.until(check, f"{plain[0]} {plain[1]} {counts}")

    async def do_event(self, plain: list[str], said: dict[str, str]) -> None:
        """event REASON TEXT [times=]: somebody was told, so often in all"""
        text = " ".join(plain[1:])

        async def told() -> int:
            events = await self.stage.items("/apis/events.k8s.io/v1/events")
            return sum(e["reason"] == plain[0] and text in e["note"] for e in events)

        async def check() -> bool:
            return bool(await told())

        await self.play.until(check, f"event {plain}")
        if "times" in said:
            await self.still()
            assert await told() == int(said["times"]), plain

    async def do_record(self, plain: list[str], said: dict[str, str]) -> None:
        """record GANG KIND: where it was put is written down, and goes with the very object that declares it"""
        records = await self.stage.items("/apis/tutti.dev/v1alpha1/placements")
        mine = [r for r in records if r["spec"]["gang"].partition("@")[0] == f"default/{plain[0]}"]
        (owner,) = [owner for record in mine for owner in record["metadata"]["ownerReferences"]]
        assert owner["kind"] == plain[1], owner
        place = f"/apis/{owner['apiVersion']}/namespaces/default/{plain[1].lower()}s/{owner['name']}"
        assert (await self.stage.get(place))["metadata"]["uid"] == owner["uid"]

    async def _domains(self, prefix: str, label: str) -> list[str]:
        labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in await self.stage.items("/api/v1/nodes")}
        return [labels[where].get(label, where) for where in (await self.play.bound(f"{prefix}-")).values()]

    async def still(self) -> None:
        """Until the scheduler has heard of everything and has nothing to do."""
        assert self.scheduler is not None
        await self.play.settle(self.scheduler)
