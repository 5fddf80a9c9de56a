! SPDX-License-Identifier: Apache-2.0
#define ELEMENT integer(int64)
#define ELEMENT_TYPE PLAIT_I64
module plait_int64
#include "plait_of_one_type.inc"
end module plait_int64
