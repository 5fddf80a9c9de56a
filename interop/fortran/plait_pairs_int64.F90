! SPDX-License-Identifier: Apache-2.0
#define ELEMENT type(plait_int64_index)
#define ELEMENT_TYPE PLAIT_I64_I32
module plait_pairs_int64
#include "plait_of_one_type.inc"
end module plait_pairs_int64
