"""A cluster of Ceph on the loopback device, in a folder: a monitor, an OSD in memory, and what is asked for besides.

Its programs are Debian 12's, run in the foreground and end with it. Nothing is replicated, so nothing outlives it.
"""
import shutil
import socket
import subprocess
import time
import uuid

PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool")
PACKAGES = "ceph-mon ceph-osd ceph-common"
SECONDS = 120  # for each program to begin
CONFIGURATION = """[global]
fsid = {fsid}
mon_host = {monitor}
mon_initial_members = a
public_addr = {address}
ms_bind_ipv6 = false
keyring = {place}/keyring
auth_allow_insecure_global_id_reclaim = false
mon_data = {place}/mon
osd_data = {place}/osd
mds_data = {place}/mds
mgr_data = {place}/mgr
rgw_data = {place}/rgw
run_dir = {place}
crash_dir = {place}/crash
admin_socket =
pid_file = {place}/$name.pid
log_file = {place}/$name.log
# Those are for disks that others fill, and for pools that are more than one OSD's.
mon_data_avail_crit = 1
mon_max_pg_per_osd = 1000
mon_allow_pool_size_one = true
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
# With the default, 5, what one node asks of another takes up to so many seconds.
mds_tick_interval = 0.2
memstore_device_bytes = {memory}
"""


def lacking(*others):
    return [word for word in (*PROGRAMS, *others) if not shutil.which(word)]


def free_port(address):
    with socket.socket() as one:
        one.bind((address, 0))
        return one.getsockname()[1]


class Cluster:
    def __init__(self, place, memory=2 << 30, address="127.0.0.1"):
        self.place, self.address, self.running = place, address, {}
        for folder in ("", "mon", "osd", "mds", "mgr", "rgw", "crash"):
            (place / folder).mkdir(exist_ok=True)
        self.configuration, keyring, fsid = place / "ceph.conf", place / "keyring", uuid.uuid4()
        monitor = f"v2:{address}:{free_port(address)}"
        self.configuration.write_text(CONFIGURATION.format(place=place, fsid=fsid, address=address, monitor=monitor,
                                                           memory=memory))
        self.run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for name in ("client.admin", "osd.0", "mds.a", "mgr.a"):
            caps = [word for what in ("mon", "osd", "mds", "mgr") for word in ("--cap", what, "allow *")]
            self.run("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)
        shutil.copy(keyring, place / "rgw")
        self.run("monmaptool", "--create", "--addv", "a", f"[{monitor}]", "--fsid", fsid, place / "monmap")
        try:
            self.tool("ceph-mon", "-i", "a", "--mkfs", "--monmap", place / "monmap", "--keyring", keyring)
            self.begin("ceph-mon", "-i", "a")
            self.ceph("osd", "new", osd := uuid.uuid4())
            self.tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
            self.begin("ceph-osd", "-i", "0")
            self.wait_for("ceph-osd", lambda: " 1 up" in self.ceph("osd", "stat"))
        except BaseException:
            self.end()
            raise

    @staticmethod
    def run(*words):
        try:
            ran = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(str(error)) from error
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))} ended with {ran.returncode}: {ran.stdout.strip()}")
        return ran.stdout

    def words(self, program, *words):
        return [program, "-c", str(self.configuration), *map(str, words)]

    def tool(self, *words):
        return self.run(*self.words(*words))

    def ceph(self, *words):
        return self.tool("ceph", *words)

    def begin(self, program, *words):
        with (self.place / f"{program}.out").open("a") as out:
            self.running[program] = subprocess.Popen(self.words(program, *words, "-f"), stdout=out, stderr=out,
                                                     stdin=subprocess.DEVNULL)

    def kill(self, program):
        process = self.running.pop(program)
        process.kill()
        process.wait()

    def wait_for(self, program, is_there):
        """Until it is there, as long as the program runs."""
        end = time.monotonic() + SECONDS
        while not is_there():
            if self.running[program].poll() is not None or time.monotonic() > end:
                said = (self.place / f"{program}.out").read_text(errors="replace")
                raise RuntimeError(f"{program} does not begin: {said.strip()[-1000:]}")
            time.sleep(0.05)

    def begin_gateway(self, port):
        """Answers to S3, from when it listens."""
        def listens():
            with socket.socket() as one:
                return one.connect_ex((self.address, port)) == 0
        self.begin("radosgw", "-n", "client.admin", f"--rgw-frontends=beast endpoint={self.address}:{port}")
        self.wait_for("radosgw", listens)

    def begin_file_system(self):
        """Clients that say nothing for half a minute lose their rights, not after a minute."""
        self.begin("ceph-mgr", "-i", "a")  # without it there is no room
        for pool in "names", "data":
            self.ceph("osd", "pool", "create", pool)
        self.ceph("fs", "new", "tree", "names", "data")
        for limit in "session_timeout", "session_autoclose":
            self.ceph("fs", "set", "tree", limit, "30")
        self.begin("ceph-mds", "-i", "a")
        self.wait_for("ceph-mds", lambda: "up:active" in self.ceph("mds", "stat"))
        self.wait_for("ceph-mgr", lambda: "GiB avail" in self.ceph("status"))

    def end(self):
        for program in reversed(list(self.running)):
            self.kill(program)
