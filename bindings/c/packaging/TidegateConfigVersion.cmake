# What a program asks for is compatible with a version that is not older and has the same first number; before 1.0, the same
# second number too.
set(PACKAGE_VERSION "@VERSION@")
string(REGEX MATCH "^0\\.[0-9]+|^[0-9]+" _tidegate_series "${PACKAGE_VERSION}")
set(_tidegate_asked "${PACKAGE_FIND_VERSION_MAJOR}.${PACKAGE_FIND_VERSION_MINOR}.0")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION AND NOT _tidegate_asked VERSION_LESS _tidegate_series)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
