#define MODULE_NAME plait_real32
#define ELEMENT real(real32)
#define ELEMENT_TYPE PLAIT_F32
#include "plait_of_one_type.inc"
