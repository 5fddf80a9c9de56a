# Corrects the Installed-Size of each package that CPack has made.
foreach(file IN LISTS CPACK_PACKAGE_FILES)
  execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/installed_size.sh ${file}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
