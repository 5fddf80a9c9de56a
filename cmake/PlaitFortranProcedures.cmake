# Procedures of Fortran from the functions of plait.h. PlaitFortran.cmake says which there are.
set(plait_sources_of_fortran include/plait/collective_table.h include/plait/plait_types.h
                             include/plait/plait.h)
list(TRANSFORM plait_sources_of_fortran PREPEND ${PROJECT_SOURCE_DIR}/)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${plait_sources_of_fortran})
list(POP_FRONT plait_sources_of_fortran plait_collective_rows plait_constants plait_header)
# The rows, in the order of plait::Collective, without blanks. Those of OTHER take other arguments.
file(READ ${plait_collective_rows} plait_collective_rows)
string(REGEX MATCHALL "\n +(ROW|OTHER)\\([^)]*" plait_collective_rows "${plait_collective_rows}")
list(TRANSFORM plait_collective_rows REPLACE "[ \n]" "")
# plait_functions, and plait_NAME_arguments of each, like "const void* send". No list holds texts of
# Fortran, whose brackets and semicolons CMake would take for its own.
file(READ ${plait_header} plait_header)
string(REPLACE ";" "@" plait_header "${plait_header}")
string(REGEX MATCHALL "\n(plait_status|const char\\*|int) plait_[a-z_]+\\([^@]*\\)@"
       plait_declarations "${plait_header}")
set(plait_functions)
foreach(declaration IN LISTS plait_declarations)
  string(REGEX REPLACE "[ \n]+" " " declaration "${declaration}")
  string(REGEX MATCH "^ (.*) plait_([a-z_]+)\\((.*)\\)@" declaration "${declaration}")
  set(name ${CMAKE_MATCH_2})
  set(plait_${name}_result ${CMAKE_MATCH_1})
  string(REPLACE ", " ";" plait_${name}_arguments "${CMAKE_MATCH_3}")
  list(REMOVE_ITEM plait_${name}_arguments void)
  list(APPEND plait_functions ${name})
endforeach()
file(READ ${plait_constants} plait_constants)
string(REGEX MATCHALL "\n  PLAIT_[A-Z0-9_]+ = -?[0-9]+[, \n]" plait_constants
       "${plait_constants}")
list(TRANSFORM plait_constants REPLACE "[, \n]" "")
set(plait_messages)
foreach(function IN LISTS plait_functions)
  if("plait_data_type type" IN_LIST plait_${function}_arguments AND NOT function STREQUAL "size_of")
    list(APPEND plait_messages ${function})
  endif()
endforeach()
set(plait_calls_with_type ${plait_messages})
foreach(row IN LISTS plait_collective_rows)
  string(REGEX MATCH "\\(([a-z_]+),([A-Z_]+)," row "${row}")
  list(FILTER plait_constants EXCLUDE REGEX "^PLAIT_${CMAKE_MATCH_2}=")
  if(NOT CMAKE_MATCH_1 STREQUAL "send_recv")
    list(REMOVE_ITEM plait_messages ${CMAKE_MATCH_1})
  endif()
endforeach()

# The types of arguments in plait.h: what they are in an interface with bind(c) and in a procedure
# of Fortran, and what that hands on if not NAME, the argument.
set(plait_argument_types
  "const void*|type(c_ptr), value|type(c_ptr), intent(in)"
  "void*|type(c_ptr), value|type(c_ptr), intent(in)"
  "char*|type(c_ptr), value"
  "void**|type(c_ptr), intent(inout)"
  "plait_stream_t|type(c_ptr), value|type(c_ptr), intent(in), optional|or_default(NAME)"
  "const plait_stream_t*|type(c_ptr), intent(in)"
  "plait_event_t|type(c_ptr), value|type(c_ptr), intent(in)"
  "plait_stream_t*|type(c_ptr), intent(inout)|type(c_ptr), intent(out)"
  "plait_event_t*|type(c_ptr), intent(inout)|type(c_ptr), intent(out)"
  "size_t|integer(c_size_t), value|integer(c_size_t), intent(in)"
  "size_t*|integer(c_size_t), intent(inout)"
  "const size_t*|integer(c_size_t), intent(in)|integer(c_size_t), intent(in)"
  "const int*|integer(c_int), intent(in), optional|integer, intent(in)|int(NAME, c_int)"
  "const char*|character(kind=c_char), intent(in)|character(*), intent(in)|NAME // c_null_char"
  "plait_backend*|integer(c_int), intent(inout)")
set(kind "type(plait_config), intent(in), optional")
list(APPEND plait_argument_types "const plait_config*|${kind}|${kind}")
set(kind "type(plait_options), intent(in), optional")
list(APPEND plait_argument_types
     "const plait_call_options*|type(plait_c_call_options), intent(in)|${kind}|made%options")
foreach(type IN ITEMS int plait_data_type plait_reduce_op plait_status plait_collective)
  list(APPEND plait_argument_types
       "${type}|integer(c_int), value|integer, intent(in)|int(NAME, c_int)"
       "${type}*|integer(c_int), intent(inout)")
endforeach()
foreach(type IN ITEMS plait_comm plait_buffer)
  list(APPEND plait_argument_types
       "${type}|type(c_ptr), value|type(${type}), intent(in)|NAME%handle"
       "${type}*|type(c_ptr), intent(inout)|type(${type}), intent(out)|NAME%handle")
endforeach()
foreach(type IN ITEMS plait_call plait_host_operation plait_unique_id plait_progress
                      plait_statistics)
  list(APPEND plait_argument_types
       "const ${type}*|type(${type}), intent(in)|type(${type}), intent(in)"
       "${type}*|type(${type}), intent(inout)|type(${type}), intent(out)")
endforeach()

# The type and the name of an argument, and what the table has of the type.
macro(plait_read_argument argument)
  string(REGEX MATCH "^(.*[ *])([a-z_]+)$" argument "${argument}")
  string(STRIP "${CMAKE_MATCH_1}" type)
  set(name ${CMAKE_MATCH_2})
  set(row ${plait_argument_types})
  string(REPLACE "*" "[*]" pattern "${type}")
  list(FILTER row INCLUDE REGEX "^${pattern}[|]")
  if(NOT row)
    message(FATAL_ERROR "plait.h: an argument has a new type, ${type}")
  endif()
  string(REPLACE "|" ";" row "${row};NAME")
  list(POP_FRONT row type in_c in_fortran handed_on)
  string(APPEND in_c " :: NAME")
  string(APPEND in_fortran " :: NAME")
  if(type MATCHES "^const (size_t|int|char|plait_stream_t)[*]$")
    string(APPEND in_c "(*)")
    if(NOT type STREQUAL "const char*")
      string(APPEND in_fortran "(:)")
    endif()
  endif()
  string(REPLACE "NAME" "${name}" in_c "${in_c}")
endmacro()

# Joins a list's arguments, in lines of less than 100 columns.
function(plait_join_arguments list indent)
  set(text "")
  set(line "")
  foreach(argument IN LISTS ${list})
    string(LENGTH "${line}${argument}" length)
    if(line AND length GREATER 60)
      string(APPEND text "${line}, &\n${indent}")
      set(line "${argument}")
    elseif(line)
      string(APPEND line ", ${argument}")
    else()
      set(line "${argument}")
    endif()
  endforeach()
  set(${list} "${text}${line}" PARENT_SCOPE)
endfunction()

# The function of plait.h, with bind(c), as c_NAME.
function(plait_fortran_interface output function)
  set(names)
  set(text "")
  foreach(argument IN LISTS plait_${function}_arguments)
    plait_read_argument("${argument}")
    list(APPEND names ${name})
    string(APPEND text "      ${in_c}\n")
  endforeach()
  plait_join_arguments(names "      ")
  set(kind "integer(c_int)")
  if(plait_${function}_result STREQUAL "const char*")
    set(kind "type(c_ptr)")
  endif()
  set(${output} "    function c_${function}(${names}) &
      bind(c, name=\"plait_${function}\") result(answer)
      import
${text}      ${kind} :: answer
    end function\n" PARENT_SCOPE)
endfunction()

# What stands for `!@ head`. `without`: an argument that the procedure returns instead. Sets
# `names`, `text`, `first`, which is what must run before the call, and `pass`.
macro(plait_fortran_arguments function form without)
  set(names)
  set(optional)
  set(text "")
  set(first "")
  set(pass)
  foreach(argument IN LISTS plait_${function}_arguments)
    plait_read_argument("${argument}")
    if(name STREQUAL "${without}")
      list(APPEND pass ${name})
      continue()
    elseif(name MATCHES "^(sends|receives)$")
      if("${form}" STREQUAL "address")
        string(REGEX REPLACE "s$" "_peers" peers ${name})
        string(REPLACE "receive" "recv" peers ${peers})
        list(APPEND pass "size(${peers}, kind=c_size_t)")
      endif()
      continue()
    elseif(type MATCHES "^plait_(event_t|stream_t)\\*$")
      string(APPEND first "    ${name} = c_null_ptr\n")
    elseif(type STREQUAL "plait_stream_t" AND NOT names)  # what the procedure is about
      string(REPLACE ", optional" "" in_fortran "${in_fortran}")
      set(handed_on NAME)
    elseif(handed_on STREQUAL "made%options" AND "${form}" STREQUAL "address")
      string(APPEND first "    call set_options(made, options)\n")
    endif()
    if(NOT "${form}" STREQUAL "address")
      set(handed_on NAME)
      if(type STREQUAL "plait_data_type" OR name MATCHES "count$")
        continue()
      elseif(type STREQUAL "const size_t*" AND "${form}" MATCHES "in_place")
        string(REGEX REPLACE "^(send|recv)_" "" name ${name})
      elseif(type MATCHES "void\\*$")
        if("${form}" MATCHES "in_place")
          if("x" IN_LIST names)
            continue()
          endif()
          set(name x)
          set(type "void*")
        endif()
        set(in_fortran "type(elements), intent(in) :: NAME")
        if(NOT "${form}" MATCHES "elements")
          set(in_fortran "ELEMENT, intent(inout), target, asynchronous :: NAME(..)")
          set(handed_on "described(NAME, 'NAME')")
          if(type STREQUAL "const void*")
            string(REPLACE "inout" "in" in_fortran "${in_fortran}")
          endif()
        endif()
      endif()
    endif()
    string(APPEND text "    ${in_fortran}\n")
    string(REPLACE "NAME" "${name}" text "${text}")
    string(REPLACE "NAME" "${name}" handed_on "${handed_on}")
    list(APPEND pass "${handed_on}")
    if(in_fortran MATCHES "optional")
      list(APPEND optional ${name})
    else()
      list(APPEND names ${name})
    endif()
  endforeach()
  list(APPEND names ${optional} status)
  plait_join_arguments(names "    ")
  string(APPEND text "    integer, intent(out), optional :: status\n")
  if("${first}" MATCHES "set_options")
    string(APPEND text "    type(c_options), target :: made\n")
  endif()
  if(NOT "${form}" STREQUAL "address")
    list(APPEND pass status)
  endif()
  plait_join_arguments(pass "      ")
endmacro()

function(plait_fortran_head output function form subroutine)
  plait_fortran_arguments(${function} ${form} "")
  set(${output} "  subroutine ${subroutine}(${names})\n${text}${first}" PARENT_SCOPE)
  set(pass "${pass}" PARENT_SCOPE)
endfunction()

function(plait_fortran_query output function returns init)
  list(GET plait_${function}_arguments -1 last)
  string(REGEX MATCH "[a-z_]+$" last "${last}")
  plait_fortran_arguments(${function} address "${last}")
  set(result answer)
  set(end "")
  if(returns MATCHES "^(integer|logical)$")
    set(result value)
    string(APPEND text "    integer(c_int) :: value\n")
    set(end "    answer = value\n")
    if(returns STREQUAL "logical")
      set(end "    answer = value /= 0\n")
    endif()
  endif()
  string(APPEND first "    ${result} = ${init}\n")
  string(REGEX REPLACE "${last}$" "${result}" pass "${pass}")
  set(${output} "  ${returns} function plait_${function}(${names}) result(answer)
${text}${first}    call finish(c_${function}(${pass}), status)
${end}  end function\n\n" PARENT_SCOPE)
endfunction()

function(plait_fortran_text output function)
  list(REMOVE_ITEM plait_${function}_arguments "char* text" "size_t capacity" "size_t* length")
  plait_fortran_arguments(${function} address "")
  set(${output} "  function plait_${function}(${names}) result(text)
${text}    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: letters(:)
    integer(c_size_t) :: length
    integer(c_int) :: code
${first}    length = 0
    code = c_${function}(${pass}, c_null_ptr, 0_c_size_t, length)
    allocate (letters(length + 1), source=c_null_char)
    if (code == PLAIT_SUCCESS) code = c_${function}(${pass}, &
      c_loc(letters), length + 1, length)
    text = text_at(c_loc(letters))
    call finish(code, status)
  end function\n\n" PARENT_SCOPE)
endfunction()

# What stands for `!@ WHICH` without arguments.
function(plait_fortran_list output which)
  set(text "")
  if(which STREQUAL "constants")
    foreach(constant IN LISTS plait_constants)
      string(REPLACE "=" " = " constant ${constant})
      string(APPEND text "  integer(c_int), parameter :: ${constant}\n")
    endforeach()
  endif()
  foreach(function IN LISTS plait_functions)
    if(which STREQUAL "interfaces")
      plait_fortran_interface(one ${function})
      string(APPEND text "${one}")
    elseif(which STREQUAL "public")
      string(APPEND text "  public :: plait_${function}\n")
    elseif(which STREQUAL "generics" AND function IN_LIST plait_calls_with_type)
      string(APPEND text "  interface plait_${function}
    module procedure ${function}_at
  end interface\n")
    endif()
  endforeach()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()
