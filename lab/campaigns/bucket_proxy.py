"""What stands between clients and a bucket's server in the campaigns bucket and soak: it drops requests and
answers, answers 503, and at times takes no connection."""
import asyncio
import random
import threading
import time

UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Passes bytes between clients and a server, in a thread of its own."""

    def __init__(self, to):
        self.to, self.port, self.down_until, self.busy_until, self.loss = to, 0, 0.0, 0.0, 0.0
        self.writers, self.random = set(), random.Random(1)
        self.lost = {"requests": 0, "answers": 0, "busy": 0, "restarts": 0}
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self.run, args=(ready,), daemon=True).start()
        ready.wait()

    def run(self, ready):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    def restart(self, seconds):
        """All connections end, and for some time there is no server."""
        def end():
            self.lost["restarts"] += 1
            self.down_until = time.monotonic() + seconds
            for writer in list(self.writers):
                writer.transport.abort()
        self.loop.call_soon_threadsafe(end)

    def busy(self, seconds):
        """All requests are answered with 503 for some time."""
        self.busy_until = time.monotonic() + seconds

    def draws(self, what):
        if self.random.random() >= self.loss:
            return False
        self.lost[what] += 1
        return True

    async def serve(self, reader, writer):
        if time.monotonic() < self.down_until:
            return writer.transport.abort()
        self.writers.add(writer)
        other = None
        try:
            from_server, other = await asyncio.open_connection(*self.to)
            self.writers.add(other)
            await asyncio.gather(self.requests(reader, other, writer), self.answers(from_server, writer, other))
        except OSError:
            pass
        finally:
            for one in filter(None, (writer, other)):
                self.writers.discard(one)
                one.transport.abort()

    async def requests(self, reader, to, back):
        while piece := await reader.read(1 << 16):
            if self.draws("requests"):
                return [one.transport.abort() for one in (to, back)]
            if time.monotonic() < self.busy_until or self.draws("busy"):
                back.write(UNAVAILABLE)
                await back.drain()
                back.close()
                return to.transport.abort()
            to.write(piece)
            await to.drain()
        to.transport.abort()

    async def answers(self, reader, to, back):
        while piece := await reader.read(1 << 16):
            if self.draws("answers"):
                return [one.transport.abort() for one in (to, back)]
            to.write(piece)
            await to.drain()
        to.transport.abort()
