#define MODULE_NAME plait_int32
#define ELEMENT integer(int32)
#define ELEMENT_TYPE PLAIT_I32
#include "plait_of_one_type.inc"
