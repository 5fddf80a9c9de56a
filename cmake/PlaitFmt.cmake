# plait_fmt: fmt as a part of each program or library that links it, so that no fmt library is
# needed at run time. Header-only fmt gives that, too, but then every file that formats anything
# compiles the whole formatter, which takes 2.5 of its 3 to 8 seconds. Here fmt.cpp compiles it
# once, for the fmt versions whose parts it knows: those of Debian 12 and Ubuntu 24.04.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(plait_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
  target_include_directories(plait_fmt SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_features(plait_fmt PUBLIC cxx_std_20)
  plait_warnings(plait_fmt)
else()
  add_library(plait_fmt INTERFACE)
  target_link_libraries(plait_fmt INTERFACE fmt::fmt-header-only)
endif()
