! SPDX-License-Identifier: Apache-2.0
#define ELEMENT complex(real32)
#define ELEMENT_TYPE PLAIT_COMPLEX_F32
module plait_complex_real32
#include "plait_of_one_type.inc"
end module plait_complex_real32
