# Writes a C++ file whose plait::bench::report_template() is page.html with all its parts but the
# runs, in pieces: compilers may limit the length of a literal.
#   cmake -D PAGE=page.html -D CHART_JS=chart.min.js -D OUTPUT=file.cpp -P embed.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(GET PAGE PARENT_PATH folder)
file(READ ${PAGE} page)
string(REGEX MATCHALL "{{[a-z.]+}}" markers "${page}")
foreach(marker IN LISTS markers)
  string(REGEX REPLACE "[{}]" "" part ${marker})
  if(part STREQUAL runs)
    continue()
  endif()
  set(file ${folder}/${part})
  if(part STREQUAL chart.min.js)
    set(file ${CHART_JS})
  endif()
  file(READ ${file} text)
  string(REPLACE "${marker}" "${text}" page "${page}")
endforeach()

set(pieces "")
string(LENGTH "${page}" length)
set(piece_bytes 16000)
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${page}" ${begin} ${piece_bytes} piece)
  string(APPEND pieces "    R\"plait_page(${piece})plait_page\",\n")
  math(EXPR begin "${begin} + ${piece_bytes}")
endwhile()
file(WRITE ${OUTPUT} "// Made by bench/report/embed.cmake.
#include \"bench/report.hpp\"

namespace plait::bench {

std::string report_template() {
  std::string page;
  for (const char* piece : {
${pieces}       })
    page += piece;
  return page;
}

}  // namespace plait::bench
")
