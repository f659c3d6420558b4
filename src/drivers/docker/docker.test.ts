/**
 * The docker driver on the machine's real engine: what every driver must do.
 */
import { driverContract } from '../../../test/contracts/driver.ts';
import { dockerHarness } from '../../../test/lib/docker-harness.ts';
import { needs } from '../../../test/lib/parts.ts';

driverContract('docker', needs('docker'), dockerHarness);
