"""A folder with programs in it, and a way to hand jobs over from there, for tests."""

from pathlib import Path

from tutti.api.handles import JobHandle
from tutti.cli.submission import submission


class Lab:
    """A folder with programs in it, and a way to hand jobs over from there."""

    def __init__(self, box, folder, monkeypatch):
        self.box, self.folder = box, folder
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TUTTI_HOME", str(box.path))
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)

    def run(self, *words, **options):
        """The job's output, rank by rank."""
        name = self.submit(*words, **options)
        code = self.wait(name)
        ranks = len(self.box.client.get(f"/v1/jobs/{name}")["ranks"])
        logs = [self.box.log(name, rank) for rank in range(ranks)]
        assert code == 0, logs
        return logs

    def submit(self, *words, **options):
        """Hand a job over; its name."""
        return self.box.client.post("/v1/jobs", {"jobs": [submission(options, words)]})["jobs"][0]["name"]

    def wait(self, name):
        """The exit code of a job, once it is over."""
        return JobHandle(self.box.client, name).wait()

    def tasks(self, script):
        """What the tasks of an array wrote, in order."""
        name = self.submit(script)
        assert self.wait(name) == 0
        folder = Path(self.box.client.get(f"/v1/jobs/{name}")["log_folder"])
        return sorted(path.read_text().strip() for path in folder.iterdir())


def lines(logs):
    return sorted(line for log in logs for line in log.splitlines())
