# Copies the file `copyright` into the folder that CPack has prepared for each package: every Debian
# package has one, in a folder of its name.
foreach(part IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${part} name)
  set(package ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright
       DESTINATION ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${part}/usr/share/doc/${package}
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
