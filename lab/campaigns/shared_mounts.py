"""File systems of several machines for the campaign shared: two nodes, each with a mount of one tree.

A node is a mount namespace with a name and an identity (boot_id) of its own, in which the tree has the same path
as on the other one. The servers' disk is ext4 in a file. All of it ends with the campaign, which has process
numbers, mounts and a network of its own.
"""
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import ceph_cluster
import real_jobs

ADDRESS = "10.7.7.7"  # gluster refuses those of 127/8
# mpirun starts this in place of a rank.
ON_ITS_NODE = """#!/bin/sh
node=$FAR; [ "$OMPI_COMM_WORLD_RANK" -ge "$NEAR_RANKS" ] || node=$NEAR
exec nsenter --target "$node" --mount --uts -- {program} "$@"
"""
NODE = r"""
hostname "$1"; mount --bind "$2" /proc/sys/kernel/random/boot_id
echo ready; exec sleep infinity
"""
SSHD = """ListenAddress {address}
HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
Subsystem sftp internal-sftp
"""
SSH = """Host *
  IdentityFile {place}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def sh(*words):
    result = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            stdin=subprocess.DEVNULL, timeout=60, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {result.stdout.strip()}")
    return result.stdout


def wait_for(what, is_there, seconds=30):
    end = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not come within {seconds} s")
        time.sleep(0.02)


class Node:
    def __init__(self, place, name, tree):
        self.name, self.tree, self.identity, self.mounting = name, tree, place / f"{name}.boot", None
        self.log = (place / f"{name}.log").open("w")
        self.begin()
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--uts", "--propagation", "private", "bash", "-c", NODE, "node", name,
             str(self.identity)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        word = self.process.stdout.readline().strip()
        if word != "ready":
            raise RuntimeError(f"there can be no node: {word}")

    def begin(self):
        self.identity.write_text(f"{uuid.uuid4()}\n")

    def words(self, *words):
        return ["nsenter", "--target", str(self.process.pid), "--mount", "--uts", "--", *map(str, words)]

    def run(self, *words, limit=120):
        """Status and output of a command there."""
        done = subprocess.run(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=limit, check=False)
        return done.returncode, done.stdout.strip()

    def mount(self, words):
        """By a program that serves the mount as long as it runs."""
        self.mounting = subprocess.Popen(self.words(*words, self.tree), stdout=self.log, stderr=subprocess.STDOUT,
                                         stdin=subprocess.DEVNULL)
        wait_for(f"the mount of {self.name}, by {words[0]}", lambda: self.mounting.poll() is not None
                 or self.run("mountpoint", "-q", self.tree)[0] == 0)
        if self.mounting.poll() is not None:
            raise RuntimeError(f"{words[0]} ended: {open(self.log.name, encoding='utf-8').read()}")

    def lose(self):
        """The node's mount ends as if the power failed there, and it comes back as another."""
        self.mounting.kill()
        self.mounting.wait()
        sh(*self.words("umount", "--lazy", self.tree))
        self.begin()

    def end(self):
        if self.mounting and self.mounting.poll() is None:
            self.mounting.kill()
            self.mounting.wait()
        self.process.kill()
        self.process.wait()


def options_of(kind, arguments):
    return kind.options if arguments.mount_options is None else arguments.mount_options.split()


class NfsLike:
    """programs/node_mount.cpp."""

    def __init__(self, arguments, place, backing):
        self.words = [arguments.bin / "campaign_node_mount", backing, arguments.cache]

    @staticmethod
    def lacks(arguments):
        return [] if (arguments.bin / "campaign_node_mount").exists() else ["campaign_node_mount"]

    def end(self):
        pass


class Sshfs:
    # Its caches of names last 20 s, and it counts a file's hard links as one.
    options = ["-o", "dir_cache=no,disable_hardlink"]

    def __init__(self, arguments, place, backing):
        for name in ("host_key", "key"):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name)
        for name, text in (("sshd", SSHD), ("ssh", SSH)):
            (place / f"{name}.conf").write_text(text.format(address=ADDRESS, place=place))
        os.makedirs("/run/sshd", exist_ok=True)
        self.server = subprocess.Popen([shutil.which("sshd", path="/usr/sbin:/usr/bin"), "-D", "-E", place / "sshd.log",
                                        "-f", place / "sshd.conf"])
        config = ["-F", place / "ssh.conf"]
        wait_for("sshd", lambda: subprocess.run(["ssh", *config, ADDRESS, "true"], stderr=subprocess.DEVNULL,
                                                stdin=subprocess.DEVNULL, check=False).returncode == 0)
        self.words = ["sshfs", "-f", *config, *options_of(self, arguments), f"{ADDRESS}:{backing}"]

    @staticmethod
    def lacks(_):
        return [word for word in ("sshfs", "ssh", "sshd") if not shutil.which(word, path="/usr/sbin:/usr/bin:/bin")]

    def end(self):
        self.server.kill()
        self.server.wait()


class Gluster:
    """A volume of one brick."""
    # Otherwise its clients keep pages that another one has written over since, also when a file is opened anew.
    options = ["--fopen-keep-cache=false"]

    def __init__(self, arguments, place, backing):
        for folder in ("/var/lib/glusterd", "/var/log/glusterfs"):
            sh("mount", "-t", "tmpfs", "none", folder)
        # Otherwise glusterd starts twenty programs in Python, of another feature.
        silent = place / "gsyncd"
        silent.write_text("#!/bin/sh\necho gsyncd\n")
        silent.chmod(0o755)
        for program in (*Path("/usr/lib").glob("*/glusterfs/gsyncd"), *Path("/usr/libexec").glob("glusterfs/gsyncd")):
            sh("mount", "--bind", silent, program)
        self.server = subprocess.Popen(["glusterd", "-N"], stdout=subprocess.DEVNULL)
        wait_for("glusterd", lambda: os.path.exists("/run/glusterd.socket"))
        sh("gluster", "--mode=script", "volume", "create", "tree", f"{ADDRESS}:{backing}", "force")
        options = options_of(self, arguments)
        for option in options:
            if not option.startswith("-"):
                sh("gluster", "--mode=script", "volume", "set", "tree", *option.split("="))
        sh("gluster", "--mode=script", "volume", "start", "tree")
        self.words = ["glusterfs", *(option for option in options if option.startswith("-")), "-N", "-l",
                      place / "client.log", f"--volfile-server={ADDRESS}", "--volfile-id=tree"]

    @staticmethod
    def lacks(_):
        return [word for word in ("glusterd", "glusterfs") if not shutil.which(word, path="/usr/sbin:/usr/bin")]

    def end(self):
        sh("gluster", "--mode=script", "volume", "stop", "tree", "force")
        self.server.kill()
        self.server.wait()
        for folder in ("/var/lib/glusterd", "/var/log/glusterfs"):
            sh("umount", "--lazy", folder)


class Ceph:
    """CephFS, whose only OSD keeps all in memory."""
    options = []

    def __init__(self, arguments, place, backing):
        (place / "cluster").mkdir()
        self.cluster = ceph_cluster.Cluster(place / "cluster", address=ADDRESS)
        try:
            self.cluster.begin_file_system()
        except BaseException:
            self.cluster.end()
            raise
        self.words = self.cluster.words("ceph-fuse", "-n", "client.admin", "-f", *options_of(self, arguments))

    @staticmethod
    def lacks(_):
        return ceph_cluster.lacking("ceph-mds", "ceph-mgr", "ceph-fuse")

    def end(self):
        self.cluster.end()


KINDS = {"nfs-like": NfsLike, "sshfs": Sshfs, "gluster": Gluster, "ceph": Ceph}


class Shared:
    """While it is entered, there are two nodes that share a tree."""
    patience = 1

    def __init__(self, arguments, kind):
        self.strikes_off = ("server", "full") if kind == "ceph" else ("server",)
        self.kind, self.place = kind, arguments.place / kind
        self.arguments, self.nodes, self.server, self.here = arguments, [], None, []
        self.disk, self.tree = self.place / "disk", self.place / "tree"
        self.backing = self.disk / "tree"

    def __enter__(self):
        try:
            for folder in (self.place, self.disk, self.tree):
                folder.mkdir()
            with (self.place / "image").open("wb") as image:
                # The NFS-like mount holds what another node has removed for as long as the kernel knows it.
                image.truncate((1024 if self.arguments.run else 256) << 20)
            sh("mkfs.ext4", "-q", self.place / "image")
            sh("mount", "-o", "loop", self.place / "image", self.disk)
            self.backing.mkdir()
            program = self.arguments.bin / "campaign_real"
            (self.place / "campaign_real").write_text(ON_ITS_NODE.format(program=program))
            (self.place / "campaign_real").chmod(0o755)
            self.server = KINDS[self.kind](self.arguments, self.place, self.backing)
            self.nodes = [Node(self.place, name, self.tree) for name in ("a", "b")]
            for node in self.nodes:
                node.mount(self.server.words)
            if self.kind == "ceph":  # the disk has nothing of it
                self.backing = Path(f"/proc/{self.nodes[0].process.pid}/root{self.tree}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, mark, near, far, here, _):
        """Words before mpirun, variables, and the folder of the program of a job; its first ranks `here` are on the
        node `near`."""
        name, value = mark.split("=")
        return [], {name: value, "NEAR": str(near.process.pid), "FAR": str(far.process.pid), "NEAR_RANKS": str(here),
                    "OMPI_MCA_oob_tcp_if_include": "lo"}, self.place

    def second(self):
        """Words that run a command on the second node, from the first."""
        return self.nodes[1].words()

    def marked(self, mark):
        """Ranks with that word in the environment."""
        found, program = [], os.fsencode(self.arguments.bin / "campaign_real")
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if ((process / "cmdline").read_bytes().split(b"\0")[0] == program
                        and f"{mark}\0" in (process / "environ").read_text(errors="replace")):
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    @staticmethod
    def signal(process, number):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass

    @staticmethod
    def kill_launcher(job):
        job.process.kill()

    @staticmethod
    def lose(node):
        node.lose()

    def restore(self, node):
        node.mount(self.server.words)

    def fill(self, less):
        """All of the servers' disk but some bytes."""
        filler = self.disk / "filler"
        with filler.open("wb") as file:
            found = os.statvfs(filler)
            os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_frsize - less))

    def free(self):
        (self.disk / "filler").unlink()

    def left_over(self, run):
        return real_jobs.left_over(self.backing / run)

    def keep(self, _, target):
        shutil.copytree(self.backing, target, symlinks=True)

    def mount_here(self, name):
        """One more mount, in the campaign's own namespace; returns its folder."""
        folder = self.place / name
        folder.mkdir()
        self.here.append(subprocess.Popen([*map(str, self.server.words), str(folder)], stdin=subprocess.DEVNULL))
        wait_for(f"a mount of {self.kind}", lambda: self.here[-1].poll() is not None or os.path.ismount(folder))
        return folder

    def __exit__(self, *_):
        for node in self.nodes:
            node.end()
        for one in self.here:
            one.kill()
            one.wait()
        if self.server:
            self.server.end()
        subprocess.run(["umount", "--lazy", str(self.disk)], stderr=subprocess.DEVNULL, check=False)
