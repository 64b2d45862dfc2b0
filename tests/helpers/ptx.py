"""The few instructions of PTX that kernels write by hand, for the 128 threads of a group."""

import re

import numpy as np

THREADS = 128
_WORD = (1 << 32) - 1

_COMPUTED = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "div": lambda a, b: a // b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
}
_COMPARED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "lt": np.less,
}
_SKIPPED = ("mbarrier", "fence", "bra", "wgmma.fence", "wgmma.commit", "wgmma.wait", "bar")


def swizzled(rows):
    """Rows of 64 numbers of 16 bits as workgroup memory of 128-byte swizzle has them, in bytes."""
    found = np.zeros((len(rows), 8, 8), rows.dtype)
    for row, numbers in enumerate(rows):
        for chunk in range(8):
            found[row, chunk ^ (row & 7)] = numbers[8 * chunk : 8 * chunk + 8]
    return found.reshape(-1).view(np.uint8)


class Group:
    """Four warps.

    Attributes:
      memory: of the workgroup, bytes.
      sums: what matrix instructions have added up, 64 rows.
      copied: (where to, where from, bytes) of each load to workgroup memory.
    """

    def __init__(self, memory, columns):
        self.memory = memory
        self.sums = np.zeros((64, columns))
        self.copied = []
        self.threads = np.arange(THREADS)

    def run(self, text, **operands):
        """Runs a text whose operands `$n` are given as `_n`, a number or one for each thread."""
        self.known = {f"${name[1:]}": value for name, value in operands.items()}
        self.known |= {"%laneid": self.threads % 32, "%tid.x": self.threads}
        for line in text.replace("\n", " ").split(";"):
            self._step(re.sub(r"^[{}\s]*(\w+:)?[{}\s]*", "", line).strip())

    def _value(self, name):
        found = self.known[name] if name in self.known else int(name)
        return np.broadcast_to(np.asarray(found, np.int64), THREADS)

    def _address(self, text):
        parts = text.strip("[] ").split("+")
        return sum(self._value(part) for part in parts)

    def _step(self, line):
        if not line or line.startswith("."):
            return
        guard, line = line.split(maxsplit=1) if line.startswith("@") else ("", line)
        if line.startswith(_SKIPPED):
            return
        held = self.known[guard.strip("@!")] != guard.startswith("@!") if guard else True
        held = np.broadcast_to(held, THREADS)
        name, rest = line.split(maxsplit=1)
        operands = [o.strip() for o in re.split(r",(?![^{]*})", rest)]
        kind = name.split(".")[0]
        if kind == "ldmatrix":
            self._matrix(operands)
        elif kind == "wgmma":
            self._product(operands)
        elif kind == "cp":
            place, source, _, size = operands
            done = zip(
                self._address(place)[held],
                self._address(source)[held],
                self._value(size)[held],
                strict=True,
            )
            self.copied += done
        elif kind == "ld":
            places = self._address(operands[1])
            assert (places % 4 == 0).all()
            self.known[operands[0]] = self.memory.view(np.uint32)[places // 4].astype(np.int64)
        elif kind == "setp":
            values = map(self._value, operands[1:])
            self.known[operands[0]] = _COMPARED[name.split(".")[1]](*values)
        elif kind == "selp":
            one, other = map(self._value, operands[1:3])
            self.known[operands[0]] = np.where(self.known[operands[3]], one, other)
        elif operands[1].startswith("{"):
            self.known[operands[0]] = [self._value(o.strip()) for o in operands[1][1:-1].split(",")]
        else:
            values = [self._value(o) for o in operands[1:]]
            found = values[0] if kind in ("mov", "cvt") else _COMPUTED[kind](*values)
            found = found if name.endswith("64") or "wide" in name else found & _WORD
            before = self.known.get(operands[0], found)
            self.known[operands[0]] = np.where(held, found, before)

    def _matrix(self, operands):
        """Four matrices of 8x8 for each warp, whose rows the lanes name."""
        places = self._address(operands[1]).reshape(4, 4, 8)
        assert (places % 16 == 0).all()
        rows = self.memory.reshape(-1, 16)[places // 16].reshape(4, 4, 8, 4, 4)
        for number, register in enumerate(operands[0].strip("{} ").split(",")):
            words = np.ascontiguousarray(rows[:, number]).reshape(THREADS, 4).view(np.uint32)
            self.known[register.strip()] = words[:, 0].astype(np.int64)

    def _product(self, operands):
        """Adds the products of 16 terms; the left operand is in registers."""
        registers = [r.strip() for r in operands[1].strip("{} ").split(",")]
        left = np.zeros((64, 16))
        row = self.threads // 32 * 16 + self.threads % 32 // 4
        for number, register in enumerate(registers):
            words = np.ascontiguousarray(self.known[register].astype(np.uint32))
            pair = words.view(np.float16).reshape(THREADS, 2)
            for half in range(2):
                column = self.threads % 4 * 2 + number // 2 * 8 + half
                left[row + number % 2 * 8, column] = pair[:, half]
        low, high = (int(part[0]) for part in self.known[operands[2]])
        assert high == (1 << 30) | 64
        start = (low & 0x3FFF) * 16
        for column in range(self.sums.shape[1]):
            place = start + column * 128 + np.arange(2) * 16
            # The order of 16 bytes depends on the address.
            place ^= (place >> 7 & 7) << 4
            numbers = np.concatenate([self.memory[p : p + 16].view(np.float16) for p in place])
            with np.errstate(invalid="ignore"):
                self.sums[:, column] += left @ numbers.astype(np.float64)
