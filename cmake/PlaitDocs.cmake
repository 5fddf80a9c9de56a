# The target `docs`: Doxygen makes a website of docs/ and the public headers. A link that leads
# nowhere is an error.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  return()
endif()
# The title of docs/README.md, so that its pages become those of the tree.
set(DOXYGEN_PROJECT_NAME "Plait's documentation")
set(DOXYGEN_PROJECT_BRIEF "")
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR})
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/interop/kernels/include ${PROJECT_SOURCE_DIR}/interop/kokkos/include)
set(DOXYGEN_FULL_PATH_NAMES YES)
# The pages are written for a Git host; the filter translates them into Doxygen's Markdown.
set(DOXYGEN_INPUT_FILTER ${PROJECT_SOURCE_DIR}/docs/doxygen-filter.py)
set(DOXYGEN_FILE_PATTERNS *.md *.hpp *.h)
set(DOXYGEN_EXTRACT_ALL YES)  # a name such as size() needs no comment
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_AUTOLINK_SUPPORT NO)  # otherwise each "Group" at the start of a sentence is a link
set(DOXYGEN_GENERATE_TREEVIEW YES)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_EXCLUDE_SYMBOLS "plait::detail" "plait::kokkos::detail")
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_INCLUDE_PATH ${PROJECT_SOURCE_DIR}/include)  # the table of collectives
doxygen_add_docs(docs
  ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/docs
  ${PROJECT_SOURCE_DIR}/include/plait ${PROJECT_SOURCE_DIR}/interop/kernels/include/plait
  ${PROJECT_SOURCE_DIR}/interop/kokkos/include/plait
  ${PROJECT_SOURCE_DIR}/examples/poisson_cg/README.md
  COMMENT "The documentation: ${PROJECT_BINARY_DIR}/docs/html/index.html")
