# text_cases: what tools/tokenizers/compare.js drives. No test of its own: the references it compares with come from
# packages that are installed by hand.
add_executable(text_cases tools/tokenizers/cases.c)
target_link_libraries(text_cases PRIVATE berth_internal)
