! SPDX-License-Identifier: Apache-2.0
#define ELEMENT type(plait_real64_index)
#define ELEMENT_TYPE PLAIT_F64_I32
module plait_pairs_real64
#include "plait_of_one_type.inc"
end module plait_pairs_real64
