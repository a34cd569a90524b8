"""NFS of Linux for the campaign shared: a server and two nodes are machines with kernels of their own."""
import signal
import subprocess
import time
from pathlib import Path

import real_jobs
from machines import Machine, Machines, lacking, sh

LAB = Path(__file__).resolve().parent
# Numbers and names of the processes that have a word in their environment.
MARKED = r"""
for file in $(grep -lszx "$1" /proc/[0-9]*/environ); do
  process=${file%/environ}; echo "${process#/proc/} $(cat "$process/comm")"
done"""
# Leases and the time in which clients claim their locks again after a restart last seconds, not minutes.
SHARE = """
mkdir -p /disk; mount -t ext4 /dev/vda /disk; mkdir -p /disk/tree
modprobe nfsd; mount -t nfsd none /proc/fs/nfsd
echo '/disk *(rw,sync,no_root_squash,no_subtree_check,fsid=0)' >/etc/exports; : >/var/lib/nfs/etab
rpcbind; rpc.nfsd --grace-time 10 --lease-time 10 4; exportfs -ra; rpc.mountd"""


class Server(Machine):
    """A disk that Linux's NFS server exports."""

    def wait(self, seconds=180):
        super().wait(seconds)
        self.must("sh", "-ec", SHARE)


class Node(Machine):
    """A machine with the server's tree."""

    def __init__(self, machines, name, tree, options, clock="utc"):
        self.tree, self.options = tree, options
        self.source = "server:/disk/tree" if "vers=3" in options else "server:/tree"
        super().__init__(machines, name, clock=clock)

    def wait(self, seconds=180):
        super().wait(seconds)
        self.must("sh", "-ec", f"mkdir -p {self.tree}; modprobe nfs; "
                               f"mount -t nfs -o {self.options} {self.source} {self.tree}")


class NfsMachines:
    """While it is entered, there are two nodes that share a tree."""
    OPTIONS = {"nfs": "vers=4.2,actimeo=2", "nfs3": "vers=3,nolock,actimeo=2"}
    strikes_off = ()
    patience = 4  # what other mounts do in a second takes that many

    def __init__(self, arguments, kind):
        self.kind, self.place, self.arguments = kind, arguments.place / kind, arguments
        self.tree, self.nodes, self.server, self.machines = self.place / "tree", [], None, None

    @staticmethod
    def lacks(_):
        return lacking("rpc.nfsd", "rpc.mountd", "rpcbind", "mount.nfs", "ip")

    def __enter__(self):
        options = self.arguments.mount_options or self.OPTIONS[self.kind]
        try:
            self.place.mkdir()
            with (self.place / "image").open("wb") as image:
                image.truncate(256 << 20)
            sh("mkfs.ext4", "-q", self.place / "image")
            self.machines = Machines(self.place, ["server", "a", "b"])
            self.server = Server(self.machines, "server", disk=self.place / "image")
            ahead = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1000))
            for name, clock in (("a", "utc"), ("b", ahead)):
                self.nodes.append(Node(self.machines, name, self.tree, options, clock))
            for machine in (self.server, *self.nodes):
                machine.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for machine in (*self.nodes, self.server, self.machines):
            if machine:
                machine.end()

    def start(self, mark, near, far, here, ranks):
        """Words before mpirun, variables, and the folder of the program of a job; its first ranks `here` are on the
        node `near`."""
        settings = {**real_jobs.SETTINGS, "OMPI_MCA_orte_default_dash_host":
                    f"{near.name}:{here}" + (f",{far.name}:{ranks - here}" if ranks > here else ""),
                    "OMPI_MCA_plm_rsh_agent": f"ssh -F {self.place}/ssh.conf",
                    "OMPI_MCA_mca_base_env_list": mark.split("=")[0],
                    "OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_btl_tcp_if_include": "eth0"}
        return (near.words("env", mark, *(f"{name}={value}" for name, value in settings.items())), {},
                self.arguments.bin)

    def second(self):
        """Words that run a command on the second node, from the first."""
        return ["ssh", "-F", str(self.place / "ssh.conf"), self.nodes[1].name]

    def marked(self, mark, name="campaign_real"):
        """Processes with that word in the environment: a node and a number each."""
        return [(node, line.split()[0]) for node in self.nodes for line in node.run(
            "sh", "-c", MARKED, "sh", mark)[1].splitlines() if line.endswith(name)]

    @staticmethod
    def signal(process, number):
        process[0].run("kill", f"-{int(number)}", process[1])

    def kill_launcher(self, job):
        for process in self.marked(job.mark, "mpirun"):
            self.signal(process, signal.SIGKILL)
        job.process.kill()

    @staticmethod
    def lose(node):
        """Its power fails."""
        node.lose_power()

    @staticmethod
    def restore(node):
        node.begin()
        node.wait()

    def lose_server(self):
        self.server.lose_power()

    def restore_server(self):
        self.server.begin()
        self.server.wait()

    def fill(self, less):
        """All of the disk but some bytes."""
        free, size = map(int, self.server.must("stat", "-f", "-c", "%a %S", "/disk").split())
        self.server.must("fallocate", "-l", max(1, free * size - less), "/disk/filler")

    def free(self):
        self.server.must("rm", "/disk/filler")

    def left_over(self, run):
        return [line for line in self.server.must(
            "env", f"PYTHONPATH={LAB}", "python3", "-B", "-c", "import pathlib, real_jobs, sys; "
            "print(*real_jobs.left_over(pathlib.Path(sys.argv[1])), sep=chr(10))", Path("/disk/tree") / run).splitlines()]

    def keep(self, folder, target):
        target.mkdir()
        with (target / "tree.tar").open("wb") as file:
            subprocess.run(self.server.words("tar", "-C", "/disk/tree", "-cf", "-", folder), stdout=file, check=False)

    def mount_here(self, _):
        raise RuntimeError("its mounts are on other machines")
