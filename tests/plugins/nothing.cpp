// A shared object that registers nothing.
extern "C" int plait_test_nothing();
int plait_test_nothing() { return 0; }
