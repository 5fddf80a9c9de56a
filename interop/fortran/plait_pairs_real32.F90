! SPDX-License-Identifier: Apache-2.0
#define ELEMENT type(plait_real32_index)
#define ELEMENT_TYPE PLAIT_F32_I32
module plait_pairs_real32
#include "plait_of_one_type.inc"
end module plait_pairs_real32
