! SPDX-License-Identifier: Apache-2.0
#define ELEMENT logical(c_bool)
#define ELEMENT_TYPE PLAIT_BOOL
module plait_logical
#include "plait_of_one_type.inc"
end module plait_logical
