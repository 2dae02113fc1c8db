// Package sagestore is the root of a layered persistence manager for AI-agent
// apps. Start at package manager.
package sagestore
