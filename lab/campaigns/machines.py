"""Virtual machines for the campaign shared: kernels, clocks and networks of their own, over this one's files.

A machine's root is this system's, read-only by 9p under a layer in its memory, so programs have the same paths there;
what it changes ends with it. qemu emulates the processor, since the campaign must run where no machine may be
virtualised; that takes ten times as long.
"""
import gzip
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

NETWORK = "10.7.7"
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "9pnet_virtio", "9p", "overlay", "ext4")
# The first program there, from a file system in memory.
BEGIN = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /below /above /joined
mount -t proc none /proc; mount -t devtmpfs none /dev
for module in {modules}; do modprobe $module; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose root /below
mount -t tmpfs none /above; mkdir /above/files /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/files,workdir=/above/work none /joined
umount /proc; mount --move /dev /joined/dev
exec switch_root /joined /bin/sh {place}/machine.sh
"""
# The second one, over this system's files.
GO_ON = """export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc none /proc; mount -t sysfs none /sys
mkdir -p /dev/pts /dev/shm; mount -t devpts none /dev/pts
for folder in /dev/shm /run; do mount -t tmpfs none $folder; done
for word in $(cat /proc/cmdline); do
  case $word in machine=*) name=${{word#machine=}} ;; address=*) address=${{word#address=}} ;; esac
done
hostname "$name"; ip link set lo up
ip address add "$address/24" dev eth0; ip link set eth0 up
cp {place}/hosts /etc/hosts; rm -f "$HOME/.bashrc"
mkdir -p /run/sshd /run/rpcbind; /usr/sbin/sshd -f {place}/sshd.conf -E /run/sshd.log
exec sleep infinity
"""
SSHD = """HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
UseDNS no
MaxSessions 100
"""
SSH = """Host *
  IdentityFile {place}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 5
"""


def sh(*words):
    subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                   stdin=subprocess.DEVNULL, timeout=60, check=True)


def kernel():
    """The newest kernel that is installed with its modules, or None."""
    found = [path for path in Path("/boot").glob("vmlinuz-*")
             if (Path("/lib/modules") / path.name.removeprefix("vmlinuz-") / "modules.dep").exists()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def lacking(*programs):
    words = [word for word in ("qemu-system-x86_64", "busybox", "cpio", "ssh", "sshd", "modprobe", *programs)
             if not shutil.which(word, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    return words + ([] if kernel() else ["kernel in /boot"])


class Machines:
    """What machines have in common: a network, keys, and what they boot."""

    def __init__(self, place, names):
        self.place, self.kernel = place, kernel()
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 11)}
        (place / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in self.addresses.items()))
        for name in ("host_key", "key"):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name)
        for name, text in (("sshd.conf", SSHD), ("ssh.conf", SSH), ("machine.sh", GO_ON)):
            (place / name).write_text(text.format(place=place))
        self.initial()
        sh("ip", "link", "add", "machines", "type", "bridge")
        sh("ip", "address", "add", f"{NETWORK}.1/24", "dev", "machines")
        sh("ip", "link", "set", "machines", "up")

    def initial(self):
        """The file system in memory that they begin in."""
        tree, version = self.place / "initial", self.kernel.name.removeprefix("vmlinuz-")
        (tree / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), tree / "bin/busybox")
        (tree / "init").write_text(BEGIN.format(place=self.place, modules=" ".join(MODULES)))
        (tree / "init").chmod(0o755)
        listed = subprocess.run(["modprobe", "--set-version", version, "--show-depends", "--all", *MODULES],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in set(listed.splitlines()):
            if line.startswith("insmod"):
                source = Path(line.split()[1])
                target = tree / source.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for name in ("modules.order", "modules.builtin"):
            shutil.copy(f"/lib/modules/{version}/{name}", tree / f"lib/modules/{version}")
        sh("depmod", "--basedir", tree, version)
        names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
        archive = subprocess.run(["cpio", "--create", "--format=newc", "--quiet"], cwd=tree, input=names.encode(),
                                 stdout=subprocess.PIPE, check=True).stdout
        (self.place / "initial.gz").write_bytes(gzip.compress(archive, 1))

    def end(self):
        subprocess.run(["ip", "link", "delete", "machines"], check=False)


class Machine:
    """One of them."""

    def __init__(self, machines, name, disk=None, clock="utc"):
        self.machines, self.name, self.disk, self.clock = machines, name, disk, clock
        self.process, self.connection, self.control = None, None, None
        self.log, self.tap = machines.place / f"{name}.console", f"tap-{name}"
        sh("ip", "tuntap", "add", self.tap, "mode", "tap")
        sh("ip", "link", "set", self.tap, "master", "machines", "up")
        self.begin()

    def begin(self):
        """Boots; comes back before it is up."""
        number = self.machines.addresses[self.name].rsplit(".", 1)[1]
        words = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Westmere", "-m", "768", "-display", "none",
                 "-no-reboot", "-serial", f"file:{self.log}", "-kernel", self.machines.kernel,
                 "-initrd", self.machines.place / "initial.gz", "-rtc", f"base={self.clock}",
                 "-append", f"console=ttyS0 panic=1 mitigations=off machine={self.name} "
                 f"address={self.machines.addresses[self.name]}",
                 "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                 "-device", "virtio-9p-pci,fsdev=root,mount_tag=root", "-device", "virtio-rng-pci",
                 "-netdev", f"tap,id=net,ifname={self.tap},script=no,downscript=no",
                 "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:07:07:{number},romfile="]
        if self.disk:
            words += ["-drive", f"file={self.disk},format=raw,if=virtio,cache=none"]
        with (self.machines.place / f"{self.name}.qemu").open("w") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)

    def wait(self, seconds=180):
        """Until it takes commands."""
        end, ssh = time.monotonic() + seconds, ["ssh", "-F", str(self.machines.place / "ssh.conf")]
        self.control = f"/run/ssh-{self.name}-{self.process.pid}"
        while not os.path.exists(self.control):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the machine {self.name} does not come up, see {self.log}")
            if not self.connection or self.connection.poll() is not None:
                self.connection = subprocess.Popen([*ssh, "-M", "-N", "-S", self.control,
                                                    self.machines.addresses[self.name]], stdin=subprocess.DEVNULL,
                                                   stderr=subprocess.DEVNULL)
            time.sleep(0.1)

    def words(self, *words):
        return ["ssh", "-F", str(self.machines.place / "ssh.conf"), "-S", self.control,
                self.machines.addresses[self.name], shlex.join(map(str, words))]

    def run(self, *words, limit=120):
        """Status and output of a command there."""
        done = subprocess.run(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=limit, check=False)
        return done.returncode, done.stdout.strip()

    def must(self, *words):
        status, text = self.run(*words)
        if status != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, words))}: {text}")
        return text

    def lose_power(self):
        """It is gone, with all that was not on its disk; begin() boots it again."""
        for process in (self.process, self.connection):
            if process:
                process.kill()
                process.wait()
        self.connection = None

    def end(self):
        self.lose_power()
        subprocess.run(["ip", "link", "delete", self.tap], check=False)

