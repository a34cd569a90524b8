"""The bucket of scripts/campaign soak: a server that keeps objects in memory, and what is in it."""
import os
import re
import subprocess
import urllib.request

from bucket_proxy import Proxy

HOME = "s3://bucket/run"
# Besides checkpoints, when nobody saves.
OWN = re.compile(r"checkpoint|\.cairn/(log|owner|runs|status)\.ckpt")


class Bucket:
    """Jobs and the tool reach it through a proxy, the campaign directly."""

    def __init__(self, binaries):
        self.process = subprocess.Popen([binaries / "s3_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)  # ends with its standard input
        self.port = int(self.process.stdout.readline())
        self.proxy = Proxy(("127.0.0.1", self.port))
        os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.proxy.port}", AWS_REGION="us-east-1",
                          AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")

    def ask(self, query):
        """The names of objects, or of uploads."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/bucket?{query}", timeout=60) as answer:
            return re.findall(r"<Key>run/(.*?)</Key>", answer.read().decode())

    def keys(self):
        return self.ask("list-type=2&prefix=run/")

    def left_over(self):
        """What belongs to no checkpoint."""
        keys = self.keys()
        left = [key for key in keys if not OWN.fullmatch(key) and not (
            (found := re.fullmatch(r"(ckpt-\d+)\.(index|data-\d{5}-of-\d{5})", key)) and f"{found[1]}.index" in keys)]
        return left + [f"an upload of {key}" for key in self.ask("uploads")]
