#define MODULE_NAME plait_real64
#define ELEMENT real(real64)
#define ELEMENT_TYPE PLAIT_F64
#include "plait_of_one_type.inc"
