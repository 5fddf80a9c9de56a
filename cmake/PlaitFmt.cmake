# plait_fmt: fmt inside of what is linked with it, so that no library of fmt is needed where it runs. Header-only fmt is that, too, but
# every file that formats anything then compiles all of the formatter, for 2.5 of its 3 to 8 seconds. Here that is compiled once, where
# fmt.cpp knows what belongs to it: for the fmt of Debian 12 and Ubuntu 24.04.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(plait_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
  target_include_directories(plait_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_features(plait_fmt PUBLIC cxx_std_20)
  plait_warnings(plait_fmt)
else()
  add_library(plait_fmt INTERFACE)
  target_link_libraries(plait_fmt INTERFACE fmt::fmt-header-only)
endif()
