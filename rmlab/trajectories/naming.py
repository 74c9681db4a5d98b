"""What a task's id says: the repository it is about (the cluster) and the family of benchmarks it comes from (the source)."""

import re

PRO = re.compile(r"^instance_(?P<owner>[^/]+?)__(?P<name>.+?)-[0-9a-f]{40}(?:-v.*)?$")
SMITH = re.compile(r"^(?:swesmith/)?(?P<owner>[^/]+?)__(?P<name>.+?)\.[0-9a-f]{6,}(?:\..*)?$")
BENCH = re.compile(r"^(?P<owner>[^/\s]+?)__(?P<name>[^/\s]+?)-\d+$")
PULL = re.compile(r"^(?P<owner>[^/\s]+)/(?P<name>[^/:\s]+):pr-(?P<number>\d+)$")  # Multi-SWE-bench's reports
IMAGE = re.compile(r"^(?:.*/)?sweb\.eval\.[a-z0-9_]+\.(?P<instance>[^:/]+)(?::[^/]*)?$")  # SWE-bench's Docker images
FAMILIES = ((PRO, "swe-bench-pro"), (SMITH, "swe-smith"), (BENCH, "swe-bench"))

STAMP = re.compile(r"[_.-]+20\d\d-?[01]\d-?[0-3]\d(?:[T_.-]*[0-2]\d[-_:]?[0-5]\d(?:[-_:]?[0-5]\d)?)?$")
COUNT = re.compile(
    r"(?:[_.-]+(?:conversation|messages?|history|traj|trajectory|round|step|turn|iter|iteration|snapshot|checkpoint))+[_.-]*\d*$"
)


def repository(task: str, stated: str = "") -> str:
    """`owner/name`; the task itself where its id names no repository (each such task is a cluster of its own)."""
    if "/" in stated and " " not in stated:
        smith = SMITH.match(stated.removeprefix("swesmith/"))
        return f"{smith['owner']}/{smith['name']}" if smith else stated
    for pattern, _ in FAMILIES:
        if found := pattern.match(task):
            return f"{found['owner']}/{found['name']}"
    return task


def family(task: str) -> str:
    """The benchmarks that name tasks like this: swe-bench, swe-smith, swe-bench-pro, or other."""
    return next((name for pattern, name in FAMILIES if pattern.match(task)), "other")


def looks_like_task(name: str) -> bool:
    """Whether a name is an instance id: `owner__name-123` and its relatives."""
    return "__" in name and not name.startswith("_") and " " not in name


def instance(name: str) -> str:
    """The instance that a report names: Multi-SWE-bench writes `owner/name:pr-1` where its data set has `owner__name-1`, and
    names of Docker images have `_1776_` in place of `__`, which they must not hold."""
    if found := PULL.match(name):
        return f"{found['owner']}__{found['name']}-{found['number']}"
    image = IMAGE.match(name)
    return (image["instance"] if image else name).replace("_1776_", "__")


def bare(name: str) -> str:
    """The instance that a folder or file goes by, without the time of its run or the number of a snapshot; any other as it is."""
    rest = COUNT.sub("", STAMP.sub("", name))
    return rest if family(rest) != "other" else name


def task_key(name: str) -> str:
    """An instance's name as it is compared: harnesses write the ids of repositories in lower case, data sets as they are."""
    name = instance(name)
    return name.lower() if looks_like_task(name) else name
