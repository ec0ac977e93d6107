# Gates: each is a test, and each has a self-test that plants a violation and expects the gate to name it.
file(GLOB BERTH_GATES CONFIGURE_DEPENDS tests/gate/gate_*.sh)
if(NOT (BERTH_ASAN OR BERTH_TSAN OR BERTH_FUZZ))
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/objects.txt CONTENT "$<JOIN:$<TARGET_OBJECTS:berth_objects>,\n>\n")
  foreach(source ${BERTH_GATES})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${name} COMMAND sh ${source} ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER} ${CMAKE_BUILD_TYPE})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS gate)
  endforeach()
  # Static analysis takes every processor for minutes: it runs in `make check-all` alone (label slow), with nothing beside it.
  set_tests_properties(gate_tidy PROPERTIES COST 1000 PROCESSORS 2 LABELS "gate;slow")
endif()
