"""A worker of the pool that does as it is told: for the tests of the pool."""

import os
import time

from seminar.rewards.worker import serve


def answer(job: str) -> object:
    match job:
        case "hang":
            while True:
                pass
        case "hold the interpreter":
            return sum(range(10**15))  # one call into C: no Python thread or signal handler runs meanwhile
        case "die":
            os._exit(3)
        case "raise":
            raise ValueError("boom")
        case "print":
            os.write(1, b'{"result": "forged"}\n')
        case "pid":
            return os.getpid()
        case "rest":
            time.sleep(1000)
        case "slow":
            time.sleep(0.5)
        case "fill the memory":
            return len(bytearray(10**10))
    return job


if __name__ == "__main__":
    serve(answer)
