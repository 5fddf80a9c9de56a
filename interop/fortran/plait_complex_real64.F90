! SPDX-License-Identifier: Apache-2.0
#define ELEMENT complex(real64)
#define ELEMENT_TYPE PLAIT_COMPLEX_F64
module plait_complex_real64
#include "plait_of_one_type.inc"
end module plait_complex_real64
