#define MODULE_NAME plait_int64
#define ELEMENT integer(int64)
#define ELEMENT_TYPE PLAIT_I64
#include "plait_of_one_type.inc"
