# Fault injection through the whole engine.
add_executable(fault_run ${CMAKE_SOURCE_DIR}/tests/fault/fault_run.c ${CMAKE_SOURCE_DIR}/tests/support/golden.c)
target_link_libraries(fault_run PRIVATE berth_internal)
target_include_directories(fault_run PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(fault_run PRIVATE _POSIX_C_SOURCE=200809L)
foreach(family qwen3-moe qwen2-moe)
  add_test(NAME fault_${family} COMMAND fault_run ${CMAKE_SOURCE_DIR}/tests/golden/${family})
  set_tests_properties(fault_${family} PROPERTIES TIMEOUT 300)
endforeach()
