# Kernels of other architectures, under an emulator.
add_test(NAME cross_kernels_aarch64 COMMAND ${CMAKE_SOURCE_DIR}/tests/cross/kernels-aarch64 ${CMAKE_BINARY_DIR}/cross)
set_tests_properties(cross_kernels_aarch64 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS cross)
