# What is installed: program, header, libberth.so, libberth.a, berth.pc, the CMake package and the man pages.
# Included from the top CMakeLists.txt. Sanitizer and fuzzing builds are never installed.
if(BERTH_ASAN OR BERTH_TSAN OR BERTH_FUZZ)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What the archive needs besides itself. The CMake package looks for it by pkg-config name; berth.pc has it as flags, since
# pkg-config wants the files of "Requires.private", and takes their compiler flags, for the shared library too.
set(BERTH_PC_REQUIRES "libpcre2-8 libutf8proc")
set(BERTH_PC_LIBS_PRIVATE)
foreach(dir ${PCRE2_STATIC_LIBRARY_DIRS} ${UTF8PROC_STATIC_LIBRARY_DIRS})
  if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND BERTH_PC_LIBS_PRIVATE "-L${dir} ")
  endif()
endforeach()
foreach(library ${PCRE2_STATIC_LIBRARIES} ${UTF8PROC_STATIC_LIBRARIES})
  string(APPEND BERTH_PC_LIBS_PRIVATE "-l${library} ")
endforeach()
string(APPEND BERTH_PC_LIBS_PRIVATE "-pthread -lm")

# The shared library exports berth_* and nothing else.
add_library(berth_shared SHARED $<TARGET_OBJECTS:berth_objects>)
target_link_libraries(berth_shared PRIVATE PkgConfig::PCRE2 PkgConfig::UTF8PROC Threads::Threads m)
target_link_options(berth_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/berth.map -Wl,--no-undefined
  -Wl,--as-needed -Wl,-z,relro -Wl,-z,now)
set_target_properties(berth_shared PROPERTIES OUTPUT_NAME berth VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/berth.map)

# The archive is one object whose hidden symbols are local: otherwise a host function of the same name as one of ours
# would be linked in its place without a word.
set(BERTH_ARCHIVE ${CMAKE_BINARY_DIR}/lib/libberth.a)
set(BERTH_ONE_OBJECT ${CMAKE_BINARY_DIR}/lib/berth.o)
add_custom_command(OUTPUT ${BERTH_ARCHIVE} BYPRODUCTS ${BERTH_ONE_OBJECT}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
  COMMAND ${CMAKE_LINKER} -r -o ${BERTH_ONE_OBJECT} $<TARGET_OBJECTS:berth_objects>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${BERTH_ONE_OBJECT}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${BERTH_ARCHIVE}
  COMMAND ${CMAKE_AR} rcs ${BERTH_ARCHIVE} ${BERTH_ONE_OBJECT}
  DEPENDS berth_objects $<TARGET_OBJECTS:berth_objects>
  COMMENT "Linking libberth.a (one object, hidden symbols local)" COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(berth_archive ALL DEPENDS ${BERTH_ARCHIVE})

file(RELATIVE_PATH BERTH_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/berth.pc.in berth.pc @ONLY)
configure_package_config_file(cmake/berthConfig.cmake.in ${CMAKE_BINARY_DIR}/berthConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/berth PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/berthConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS berth_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${BERTH_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/berth.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/berth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/berthConfig.cmake ${CMAKE_BINARY_DIR}/berthConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/berth)
install(FILES examples/generate.c examples/plan.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES docs/man/berth.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/man/libberth.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
if(TARGET berth)
  install(TARGETS berth RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
