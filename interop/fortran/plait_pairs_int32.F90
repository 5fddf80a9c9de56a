! SPDX-License-Identifier: Apache-2.0
#define ELEMENT type(plait_int32_index)
#define ELEMENT_TYPE PLAIT_I32_I32
module plait_pairs_int32
#include "plait_of_one_type.inc"
end module plait_pairs_int32
