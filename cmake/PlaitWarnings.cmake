# plait_warnings(target): the warnings of every target of the project, and the sanitizer if one is
# chosen.
function(plait_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX,HIP>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual>)
  # Files that are compiled together see each other's names, and need not know them; and g++ takes
  # the files that a unit includes for headers. Which files those are differs between targets.
  if(CMAKE_UNITY_BUILD)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>
                           $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  if(PLAIT_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX,HIP>:-Werror>
                           $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  if(PLAIT_SANITIZE)
    # -g1, because reports need lines, not types.
    target_compile_options(${target} PRIVATE -fsanitize=${PLAIT_SANITIZE} -fno-omit-frame-pointer
                           -g1)
    target_link_options(${target} PRIVATE -fsanitize=${PLAIT_SANITIZE})
  endif()
  if(PLAIT_HOST_JITTER)
    target_compile_definitions(${target} PRIVATE PLAIT_HOST_JITTER=1)
  endif()
endfunction()
