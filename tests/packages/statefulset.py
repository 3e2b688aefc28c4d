"""What a kubelet makes of the container of packaging/container/statefulset.yaml, as arguments of `podman run`, ended by zero bytes.

    statefulset.py arguments FILE CLAIM    image and settings; CLAIM is the folder that stands for the volume's claim
    statefulset.py probe FILE              command of the readiness probe

Whatever the file has that is not known here ends this, so that nothing it asks for is left untried.
"""

import sys

import yaml


def take(settings, known):
    """Values of the known names; another name is an error."""
    unknown = set(settings) - set(known)
    if unknown:
        sys.exit(f"not known here: {sorted(unknown)}")
    return [settings.get(name) for name in known]


def of_pod(settings):
    non_root, user, group, fs_group, seccomp = take(
        settings, ["runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"]
    )
    if not (non_root and user) or seccomp != {"type": "RuntimeDefault"}:
        sys.exit("the pod has more rights than it should")
    return ["--user", f"{user}:{group}", "--group-add", str(fs_group)]


def of_container(settings):
    escalation, read_only, capabilities = take(
        settings, ["allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"]
    )
    if escalation or not read_only:
        sys.exit("the container has more rights than it should")
    drops = [f"--cap-drop={name}" for name in take(capabilities, ["drop"])[0]]
    # Podman lays a scratch file system over /tmp and others unless told otherwise; a kubelet does not.
    return ["--read-only", "--read-only-tmpfs=false", "--security-opt", "no-new-privileges", *drops]


def mounts(container, spec, claims, claim):
    scratch = [volume["name"] for volume in spec["volumes"] if volume.get("emptyDir") == {}]
    for mount in container["volumeMounts"]:
        name, path = take(mount, ["name", "mountPath"])
        if name in scratch:
            yield from ["--mount", f"type=tmpfs,destination={path},tmpfs-mode=1777"]
        elif name in claims:
            yield from ["--volume", f"{claim}:{path}"]
        else:
            sys.exit(f"volume {name} is not there")


def arguments(stateful_set, claim):
    spec = stateful_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    claims = [template["metadata"]["name"] for template in stateful_set["spec"]["volumeClaimTemplates"]]
    settings = [f"--env={v['name']}={v['value']}" for v in container["env"]]
    return [
        *of_pod(spec["securityContext"]),
        *of_container(container["securityContext"]),
        *mounts(container, spec, claims, claim),
        *settings,
        container["image"],
    ]


def main():
    action, file, *rest = sys.argv[1:]
    with open(file, encoding="utf-8") as text:
        (stateful_set,) = [it for it in yaml.safe_load_all(text) if it["kind"] == "StatefulSet"]
    if action == "arguments":
        words = arguments(stateful_set, *rest)
    else:
        (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
        words = container["readinessProbe"]["exec"]["command"]
    sys.stdout.write("".join(word + "\0" for word in words))


main()
