# Tidegate::tidegate is the shared library, Tidegate::static the static one; Tidegate::cpp adds the headers of C++ to the
# shared one, and threads.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
get_filename_component(_tidegate_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Tidegate::tidegate)
  add_library(Tidegate::tidegate SHARED IMPORTED)
  set_target_properties(Tidegate::tidegate PROPERTIES
    IMPORTED_LOCATION "${_tidegate_prefix}/lib/libtidegate.so.1"
    IMPORTED_SONAME "libtidegate.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_tidegate_prefix}/include")
endif()

if(NOT TARGET Tidegate::static)
  add_library(Tidegate::static STATIC IMPORTED)
  set_target_properties(Tidegate::static PROPERTIES
    IMPORTED_LOCATION "${_tidegate_prefix}/lib/libtidegate.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_tidegate_prefix}/include"
    INTERFACE_LINK_LIBRARIES "@NATIVE_LIST@")
endif()

if(NOT TARGET Tidegate::cpp)
  add_library(Tidegate::cpp INTERFACE IMPORTED)
  set_target_properties(Tidegate::cpp PROPERTIES
    INTERFACE_LINK_LIBRARIES "Tidegate::tidegate;Threads::Threads"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
