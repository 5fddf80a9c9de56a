! SPDX-License-Identifier: Apache-2.0
#define ELEMENT integer(int8)
#define ELEMENT_TYPE PLAIT_I8
module plait_int8
#include "plait_of_one_type.inc"
end module plait_int8
