! SPDX-License-Identifier: Apache-2.0
#define ELEMENT real(real32)
#define ELEMENT_TYPE PLAIT_F32
module plait_real32
#include "plait_of_one_type.inc"
end module plait_real32
