# Puts the file `copyright`, which each of Debian's packages has under its own name, into what CPack has laid out for each.
foreach(part IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${part} name)
  set(folder ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${part}/usr/share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${folder} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
