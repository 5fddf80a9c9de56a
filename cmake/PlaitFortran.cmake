# Sources of Fortran's modules and of their tests, made from templates, plait.h and
# collective_table.h. A template is Fortran with these lines:
#
#   !@ each collective      What follows, up to `!@ end`, comes once for each row of the table, with
#                             @name@, @NAME@, @number@   its names and the number of the collective
#                             {op|text}   the text, if the row has op; likewise {root|text}
#                             {op}        at the start of a line: the line, if the row has op
#                             @blocks@    four logicals: send, recv has a block for each rank; send,
#                                         recv is the root's
#   !@ each number          the same, with names and number alone, for OTHER rows too
#   !@ each of NAME ...     the same for these, with @name@ alone
#   !@ each message         the same for the functions of plait.h with a type of elements, but
#                           without a row in the table
#   !@ each other           the same for its functions without a type of elements that come up in no
#                           other line of the template
#   !@ interfaces           the functions of plait.h, with bind(c)
#   !@ constants            the numbers of its enums, but for collectives
#   !@ public               public statements for the procedures
#   !@ generics             generic names for the procedures with a type of elements
#   !@ head FUNCTION FORM [SUBROUTINE]   The first statements of a subroutine that has the arguments
#                           of the function of plait.h. FORM: `address` for c_ptr; `array` for an
#                           ELEMENT of any rank, and `elements` for the type of plait_arrays.f90,
#                           both without counts and types; `in_place` and `elements_in_place`
#                           likewise, with one array for the two buffers. @pass@ is then the
#                           arguments to hand on: to C, or to the subroutine of the next form.
#   !@ query FUNCTION TYPE VALUE         a whole function that returns the last argument, of the
#                           type integer, logical or another; VALUE after an error
#   !@ text FUNCTION        the same for a text
include(${CMAKE_CURRENT_LIST_DIR}/PlaitFortranProcedures.cmake)

# One of a loop's parts, for a row.
function(plait_fortran_row output pattern kind number row)
  string(REGEX REPLACE "[(,]" ";" row "${row}")
  list(POP_FRONT row takes name upper_name)
  set(one "${pattern}")
  if("${takes}" STREQUAL "ROW")
    list(POP_FRONT row op root)
    set(blocks "")
    foreach(property IN ITEMS blocks root)
      foreach(buffer IN LISTS row)
        if(buffer MATCHES ${property})
          list(APPEND blocks .true.)
        else()
          list(APPEND blocks .false.)
        endif()
      endforeach()
    endforeach()
    list(JOIN blocks ", " blocks)
    string(REPLACE "@blocks@" "${blocks}" one "${one}")
    foreach(argument IN ITEMS op root)
      if("${${argument}}" STREQUAL "${argument}")
        string(REPLACE "{${argument}}" "" one "${one}")
        string(REGEX REPLACE "{${argument}\\|([^}]*)}" "\\1" one "${one}")
      else()
        string(REGEX REPLACE "{${argument}}[^\n]*\n" "" one "${one}")
        string(REGEX REPLACE "{${argument}\\|[^}]*}" "" one "${one}")
      endif()
    endforeach()
  elseif("${takes}" STREQUAL "OTHER" AND "${kind}" STREQUAL "collective")
    set(one "")
  endif()
  string(REPLACE "@name@" "${name}" one "${one}")
  string(REPLACE "@NAME@" "${upper_name}" one "${one}")
  string(REPLACE "@number@" "${number}" one "${one}")
  set(${output} "${one}" PARENT_SCOPE)
endfunction()

# Cuts `rest` at the first `mark`: `before` is what comes before it, `rest` what comes behind.
macro(plait_cut mark)
  string(FIND "${rest}" "${mark}" begin)
  if(begin LESS 0)
    message(FATAL_ERROR "${template}: there is no `${mark}`")
  endif()
  string(SUBSTRING "${rest}" 0 ${begin} before)
  string(LENGTH "${mark}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
endmacro()

# plait_fortran_source(TEMPLATE OUTPUT [WORD TEXT]...) writes OUTPUT from TEMPLATE, with TEXT for
# each WORD.
function(plait_fortran_source template output)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${template})
  file(READ ${template} whole)
  set(rest "${whole}")
  set(text "")
  while(rest MATCHES "!@ each ([^\n]+)\n")
    set(kind ${CMAKE_MATCH_1})
    plait_cut("${CMAKE_MATCH_0}")
    string(APPEND text "${before}")
    plait_cut("!@ end\n")
    set(rows ${plait_collective_rows})
    if(kind MATCHES "^of (.*)")
      string(REPLACE " " ";NAME," rows "NAME,${CMAKE_MATCH_1}")
    elseif(kind STREQUAL "message")
      list(TRANSFORM plait_messages PREPEND "NAME," OUTPUT_VARIABLE rows)
    elseif(kind STREQUAL "other")
      set(rows)
      foreach(function IN LISTS plait_functions)
        set(own "!@ [a-z]+ ${function}[ \n]|(function|subroutine) plait_${function}\\(")
        if(NOT "plait_data_type type" IN_LIST plait_${function}_arguments AND
           NOT whole MATCHES "${own}")
          list(APPEND rows "NAME,${function}")
        endif()
      endforeach()
    endif()
    set(number 0)
    foreach(row IN LISTS rows)
      plait_fortran_row(one "${before}" "${kind}" ${number} "${row}")
      string(APPEND text "${one}")
      math(EXPR number "${number} + 1")
    endforeach()
  endwhile()
  set(rest "${text}${rest}")
  set(text "")
  set(pass "@pass@")
  while(rest MATCHES "!@ ([^\n]+)\n")
    set(words ${CMAKE_MATCH_1})
    plait_cut("${CMAKE_MATCH_0}")
    string(REPLACE "@pass@" "${pass}" before "${before}")
    string(REPLACE " " ";" words "${words}")
    list(POP_FRONT words kind)
    if(kind STREQUAL "head")
      plait_fortran_head(one ${words})
    elseif(kind STREQUAL "query")
      plait_fortran_query(one ${words})
    elseif(kind STREQUAL "text")
      plait_fortran_text(one ${words})
    else()
      plait_fortran_list(one ${kind})
    endif()
    string(APPEND text "${before}${one}")
  endwhile()
  string(REPLACE "@pass@" "${pass}" rest "${rest}")
  string(APPEND text "${rest}")
  while(ARGN)
    list(POP_FRONT ARGN word for_it)
    string(REPLACE "${word}" "${for_it}" text "${text}")
  endwhile()
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
