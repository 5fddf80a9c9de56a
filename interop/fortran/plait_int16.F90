! SPDX-License-Identifier: Apache-2.0
#define ELEMENT integer(int16)
#define ELEMENT_TYPE PLAIT_I16
module plait_int16
#include "plait_of_one_type.inc"
end module plait_int16
