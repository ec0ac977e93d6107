# Fault injection through the whole engine.
add_executable(fault_run ${CMAKE_SOURCE_DIR}/tests/fault/fault_run.c ${CMAKE_SOURCE_DIR}/tests/support/golden.c)
target_link_libraries(fault_run PRIVATE berth_internal)
target_include_directories(fault_run PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(fault_run PRIVATE _POSIX_C_SOURCE=200809L)
foreach(family qwen3-moe qwen2-moe)
  add_test(NAME fault_${family} COMMAND fault_run ${CMAKE_SOURCE_DIR}/tests/golden/${family})
  set_tests_properties(fault_${family} PROPERTIES TIMEOUT 300)
endforeach()

# The store: disks, locks, damage, kills. The preloaded library stands in for disks that are full, read-only or gone.
if(TARGET berth)
  add_executable(store_probe ${CMAKE_SOURCE_DIR}/tests/fault/store_probe.c)
  target_link_libraries(store_probe PRIVATE berth_app)
  add_library(store_preload MODULE ${CMAKE_SOURCE_DIR}/tests/fault/store_preload.c)
  set_target_properties(store_preload PROPERTIES PREFIX "")
  target_link_libraries(store_preload PRIVATE ${CMAKE_DL_LIBS})
  add_test(NAME fault_store COMMAND sh ${CMAKE_SOURCE_DIR}/tests/fault/store_faults.sh $<TARGET_FILE:berth>
    $<TARGET_FILE:json_get> ${CMAKE_SOURCE_DIR} $<TARGET_FILE:store_probe> $<TARGET_FILE:store_preload>)
  set_tests_properties(fault_store PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
