! SPDX-License-Identifier: Apache-2.0
#define ELEMENT integer(int32)
#define ELEMENT_TYPE PLAIT_I32
module plait_int32
#include "plait_of_one_type.inc"
end module plait_int32
