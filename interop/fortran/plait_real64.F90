! SPDX-License-Identifier: Apache-2.0
#define ELEMENT real(real64)
#define ELEMENT_TYPE PLAIT_F64
module plait_real64
#include "plait_of_one_type.inc"
end module plait_real64
