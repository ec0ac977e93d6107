# The program: parts of it as cmocka programs, and whole commands as shell scripts (expected stdout, stderr and exit
# status). The scripts use the tiny checkpoints of tests/golden and, where text is needed, the bundled pocket model.
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

file(GLOB BERTH_CLI_UNITS CONFIGURE_DEPENDS tests/cli/test_app_*.c)
foreach(source ${BERTH_CLI_UNITS})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE berth_app PkgConfig::CMOCKA PkgConfig::JANSSON)
  target_compile_options(${name} PRIVATE -Wno-missing-prototypes)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endforeach()

# The program's own logic against a scripted model in place of the library's session half.
target_sources(test_app_chat PRIVATE tests/cli/fake/fake_model.c)
target_include_directories(test_app_chat PRIVATE tests/cli)

target_compile_definitions(test_app_terminal PRIVATE _GNU_SOURCE BERTH_PROGRAM="$<TARGET_FILE:berth>"
  BERTH_MODEL="${CMAKE_SOURCE_DIR}/models/pocket-moe-q8_0.gguf")
target_link_libraries(test_app_terminal PRIVATE util)

# json_get FILE [PATH]: reads one JSON document and prints the value at a dotted path; fails when it is not JSON.
add_executable(json_get tests/cli/json_get.c)
target_link_libraries(json_get PRIVATE PkgConfig::JANSSON berth_flags)

file(GLOB BERTH_CLI_SCRIPTS CONFIGURE_DEPENDS tests/cli/cli_*.sh)
if(TARGET berth)
  foreach(source ${BERTH_CLI_SCRIPTS})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${name} COMMAND sh ${source} $<TARGET_FILE:berth> $<TARGET_FILE:json_get> ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
endif()
