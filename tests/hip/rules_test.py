#!/usr/bin/env python3
"""Which loads gcn_rules.py takes for looks at a flag.

Compilers do not make every case from real kernels.
"""

import sys
import unittest

sys.dont_write_bytecode = True  # the source folder stays clean

from gcn_rules import acquire, fence, scope
from machine_code import Function, disassembled

# A load, some instructions, and a spin with its first look taken out of it. A test fills in LOAD
# and BETWEEN.
SPIN = """
  LOAD
  BETWEEN
  global_load_dword v0, v[2:3], off sc0 sc1
  s_waitcnt vmcnt(0)
  s_cbranch_execz 6
  s_sleep 1
  global_load_dword v0, v[2:3], off sc0 sc1
  s_waitcnt vmcnt(0)
  s_cbranch_execz 1
  s_branch 65531
  s_waitcnt vmcnt(0)
  buffer_inv sc0 sc1
  global_load_dwordx4 v[4:7], v[8:9], off
  s_endpgm
"""


def kernel(load: str, *between: str) -> Function:
    """As objdump prints it, had each instruction one word."""
    lines = SPIN.replace("LOAD", load).replace("BETWEEN", "\n  ".join(between)).split("\n")
    code = [line.strip() for line in lines if line.strip()]
    listing = [f"\t{line}  // {4 * i:012X}: 00000000" for i, line in enumerate(code)]
    return disassembled("\n".join(["000000000000 <kernel>:", *listing]), "gfx942")[0]


class FirstLook(unittest.TestCase):
    plain = "global_load_dword v0, v[2:3], off"

    def test_a_right_one(self):
        function = kernel("s_nop 0")
        self.assertEqual([], [*scope(function), *acquire(function)])

    def test_a_plain_look_at_the_flag(self):
        self.assertEqual(1, len([*scope(kernel(self.plain))]))
        self.assertEqual(
            1, len([*scope(kernel(self.plain, "v_mov_b32_e32 v4, v5", "s_mov_b32 s2, 0"))])
        )

    def test_data_behind_a_look_without_invalidation(self):
        self.assertEqual(
            1,
            len(
                [
                    *acquire(
                        kernel(
                            "global_load_dword v0, v[2:3], off sc0 sc1",
                            "global_load_dwordx4 v[4:7], v[8:9], off",
                        )
                    )
                ]
            ),
        )

    def test_an_address_that_is_overwritten(self):
        """The registers are the same, and what they hold is not."""
        for write in (
            "v_mov_b32_e32 v2, v5",
            "v_lshl_add_u64 v[2:3], v[4:5], 0, 4",
            "global_load_dwordx2 v[2:3], v[8:9], off",
        ):
            self.assertEqual([], [*scope(kernel(self.plain, write))], write)
        self.assertEqual([], [*scope(kernel("global_load_dword v3, v[2:3], off"))])

    def test_an_address_that_is_overwritten_on_one_of_two_ways(self):
        self.assertEqual(
            1, len([*scope(kernel(self.plain, "s_cbranch_vccz 1", "v_mov_b32_e32 v2, v5"))])
        )
        self.assertEqual(
            [],
            [
                *scope(
                    kernel(
                        self.plain,
                        "s_cbranch_vccz 1",
                        "v_mov_b32_e32 v2, v5",
                        "v_mov_b32_e32 v3, v5",
                    )
                )
            ],
        )

    def test_a_release_ends_a_wait(self):
        self.assertEqual([], [*scope(kernel(self.plain, "buffer_wbl2 sc0 sc1"))])


class Fence(unittest.TestCase):
    data = "global_store_dwordx2 v[0:1], v[2:3], off sc0 sc1"

    def test_data_may_follow_once_it_is_done(self):
        code = "buffer_wbl2 sc0 sc1", "s_waitcnt vmcnt(0)", self.data
        self.assertEqual([], [*fence(kernel(*code))])

    def test_nothing_overtakes_it(self):
        code = "buffer_wbl2 sc0 sc1", self.data, "s_waitcnt vmcnt(0)"
        self.assertEqual(1, len([*fence(kernel(*code))]))

    def test_there_is_one(self):
        self.assertEqual(1, len([*fence(kernel(self.data))]))


if __name__ == "__main__":
    unittest.main()
