/** A Hadoop FileSystem and FileContext over object stores. docs/HADOOP.md is the guide. */
package io.tidegate.hadoop;
